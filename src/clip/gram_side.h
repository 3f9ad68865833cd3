// SPDX-License-Identifier: Apache-2.0
// A Gram matrix of a stored matrix, and functions of it applied to the matrix, slab by slab: G is read twice and never
// copied as a whole. Side: whose products they are; the smaller one, or, of a shard, the one that is whole here.
#pragma once

#include <Eigen/Core>

#include "clip/panel.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

enum class Side : std::uint8_t { columns, rows };
[[nodiscard]] inline Side smaller_side(const AnyMatrix& G) noexcept {
  return G.rows >= G.cols ? Side::columns : Side::rows;
}

// scale^2 G^T G (columns) or scale^2 G G^T (rows), r x r, lower triangle. m n r flops, one read.
[[nodiscard]] Eigen::MatrixXd gram_of(const AnyMatrix& G, Side side, double scale);

// G <- G F (columns) or F G (rows), in float64, rounded once. F: r x r. 2 m n r flops; one read and one write.
void apply_factor(const AnyMatrix& G, Side side, const Magnitude& size, const Eigen::MatrixXd& F);

// G -= G Q diag(weight) Q^T (columns) or Q diag(weight) Q^T G (rows), in float64, rounded once. Q: r x c orthonormal.
// At most 4 m n c flops; one read and one write.
void remove_directions(const AnyMatrix& G, Side side, const Magnitude& size, const Eigen::MatrixXd& Q,
                       const Eigen::VectorXd& weight);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The smaller Gram matrix of a stored matrix, and functions of it applied to the matrix, slab by slab: G is read twice
// and never copied as a whole.
#pragma once

#include <Eigen/Core>

#include "clip/panel.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

// scale^2 G^T G (m >= n) or scale^2 G G^T (m < n), r x r with r = min(m, n), lower triangle. m n r flops, one read.
[[nodiscard]] Eigen::MatrixXd smaller_gram(const AnyMatrix& G, double scale);

// G <- G F (m >= n) or F G (m < n), in float64, rounded once. F: r x r. 2 m n r flops; one read and one write.
void apply_factor(const AnyMatrix& G, const Magnitude& size, const Eigen::MatrixXd& F);

// G -= G Q diag(weight) Q^T (m >= n) or Q diag(weight) Q^T G (m < n), in float64, rounded once. Q: r x c orthonormal.
// At most 4 m n c flops; one read and one write.
void remove_directions(const AnyMatrix& G, const Magnitude& size, const Eigen::MatrixXd& Q,
                       const Eigen::VectorXd& weight);

}  // namespace spectralclip

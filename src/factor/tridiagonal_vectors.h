// SPDX-License-Identifier: Apache-2.0
// Eigenvectors of a symmetric tridiagonal matrix whose eigenvalues are known, by inverse iteration with full
// orthogonalization (ties and clusters included), checked by their residual.
#pragma once

#include <Eigen/Core>

#include "factor/sturm.h"

namespace spectralclip::factor {

// values: `count` eigenvalues, ties next to each other. Returns n x count orthonormal vectors, or an empty matrix when
// a residual ||T s - lambda s|| is above rounding (the caller then runs a full solver).
[[nodiscard]] Eigen::MatrixXd tridiagonal_vectors(const Tridiagonal& T, const Eigen::VectorXd& values);

}  // namespace spectralclip::factor

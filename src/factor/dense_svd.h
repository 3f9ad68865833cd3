// SPDX-License-Identifier: Apache-2.0
// Thin SVD in float64 that checks its own answer. Knows nothing of storage types, thresholds or scaling: the caller
// passes finite entries of moderate size (largest |entry| near 1).
#pragma once

#include <Eigen/Core>

namespace spectralclip::factor {

struct DenseSvd {
  Eigen::MatrixXd U;       // m x r, r = min(m, n), orthonormal columns
  Eigen::VectorXd sigma;   // r, largest first
  Eigen::MatrixXd V;       // n x r, orthonormal columns
  bool converged = false;  // residual and orthonormality are at the level of rounding
};

// G (m x n) = U diag(sigma) V^T. Backward error and loss of orthonormality at most
// kSvdErrorFactor * sqrt(r) * eps, relative to ||G||_F, when converged.
[[nodiscard]] DenseSvd dense_svd(const Eigen::MatrixXd& G);

inline constexpr double kSvdErrorFactor = 32;

}  // namespace spectralclip::factor

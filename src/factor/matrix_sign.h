// SPDX-License-Identifier: Apache-2.0
// Functions of symmetric matrices by products alone, in float64: largest eigenvalue, sign, inverse square root, and the
// orthogonal polar factor. What a device with fast products and slow factorisations wants.
#pragma once

#include <Eigen/Core>

namespace spectralclip::factor {

// Bounds low <= lambda_max <= high of a symmetric positive semidefinite A != 0 (n x n, full), by repeated squaring.
struct EigenvalueBounds {
  double low = 0;
  double high = 0;
};
// high / low - 1 <= kEigenvalueGap for n up to 1e14; with a gap below lambda_max it is far smaller.
inline constexpr double kEigenvalueGap = 1e-6;
[[nodiscard]] EigenvalueBounds bound_largest_eigenvalue(const Eigen::MatrixXd& A);

// sign(X) of a symmetric X with spectrum in [-1, 1]: eigenvalues with |x| >= lower are mapped to +-1 within rounding,
// smaller ones to something of the same sign between.
[[nodiscard]] Eigen::MatrixXd matrix_sign(Eigen::MatrixXd X, double lower);

// Z = M^(-1/2) of a symmetric M with spectrum in [lower, 1].
struct InverseRoot {
  Eigen::MatrixXd Z;
  double residual = 0;  // ||Z Y - I||_F, Y the root that was found beside it
};
[[nodiscard]] InverseRoot inverse_square_root(Eigen::MatrixXd M, double lower);

// X (m x n, m >= n, singular values in [0, 1]) becomes its orthogonal polar factor, in place: singular values >= lower
// go to 1 within rounding, 0 stays 0, those between end somewhere in (0, 1].
void polar_inplace(Eigen::MatrixXd& X, double lower);

}  // namespace spectralclip::factor

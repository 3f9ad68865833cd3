// SPDX-License-Identifier: Apache-2.0
// The dense factorisations that tests compare with, compiled once: Eigen's templates cost a minute in every file that
// names one. The SVD is our own one-sided Jacobi in extended precision, independent of what the library calls.
#pragma once

#include <Eigen/Core>

namespace spectralclip::testing {

using Extended = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

// G = U diag(sigma) V^T, sigma descending, min(rows, cols) of them; columns of U with sigma = 0 are zero (rows >=
// cols).
struct ExtendedSvd {
  Extended U;
  Eigen::Matrix<long double, Eigen::Dynamic, 1> sigma;
  Extended V;
};
[[nodiscard]] ExtendedSvd jacobi_svd(const Extended& G);
[[nodiscard]] Eigen::VectorXd singular_values(const Eigen::MatrixXd& G);

// Q of X = Q R, rows x min(rows, cols), with a non-negative diagonal of R.
[[nodiscard]] Eigen::MatrixXd orthonormal_basis(const Eigen::MatrixXd& X);

struct Eigenpairs {
  Eigen::VectorXd values;   // ascending
  Eigen::MatrixXd vectors;  // columns
};
[[nodiscard]] Eigenpairs symmetric_eigenpairs(const Eigen::MatrixXd& A);
[[nodiscard]] Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& A);

}  // namespace spectralclip::testing

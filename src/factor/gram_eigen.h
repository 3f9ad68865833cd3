// SPDX-License-Identifier: Apache-2.0
// Leading eigenpairs of a symmetric positive semidefinite matrix in float64: all values first (cheap), then only as
// many vectors as are asked for. Knows nothing of gradients or thresholds.
#pragma once

#include <Eigen/Eigenvalues>

namespace spectralclip::factor {

class GramEigen {
 public:
  // A: n x n, only the lower triangle is read; entries of moderate size. 4/3 n^3 flops for the tridiagonal form and
  // O(n^2) for the values.
  explicit GramEigen(Eigen::MatrixXd A);

  [[nodiscard]] bool converged() const noexcept { return converged_; }
  // n eigenvalues, largest first; tiny negative ones (rounding) are returned as zero. Absolute error a small multiple
  // of eps * values()[0].
  [[nodiscard]] const Eigen::VectorXd& values() const noexcept { return values_; }

  // Orthonormal eigenvectors of the `count` largest values: n x count. An empty matrix when the solver failed.
  // Inverse iteration on the tridiagonal form: 2 n count^2 flops to orthogonalize and 2 n^2 count to transform back.
  // Where that misses its residual (heavy ties) the full QR algorithm runs, about 9 n^3.
  [[nodiscard]] Eigen::MatrixXd leading_vectors(Eigen::Index count) const;

 private:
  Eigen::MatrixXd A_;
  Eigen::Tridiagonalization<Eigen::MatrixXd> tridiagonal_;  // A = Q T Q^T
  Eigen::VectorXd diagonal_;
  Eigen::VectorXd subdiagonal_;
  Eigen::VectorXd values_;
  bool converged_ = false;
};

}  // namespace spectralclip::factor

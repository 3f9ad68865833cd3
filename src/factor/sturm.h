// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of a symmetric tridiagonal matrix to a few eps of its norm, whatever its size, from values known roughly.
#pragma once

#include <Eigen/Core>

namespace spectralclip::factor {

struct Tridiagonal {
  const Eigen::VectorXd& diagonal;     // n
  const Eigen::VectorXd& subdiagonal;  // n - 1

  // Upper bound on the spectral norm (largest row sum, bounded).
  [[nodiscard]] double norm() const {
    const double off = subdiagonal.size() > 0 ? subdiagonal.cwiseAbs().maxCoeff() : 0.0;
    return diagonal.cwiseAbs().maxCoeff() + 2 * off;
  }
};

// values: all n eigenvalues, largest first, each off by less than 4 n eps norm; improved in place by bisection with
// Sturm counts, about n^2 log2(16 n) divisions.
void refine_eigenvalues(const Tridiagonal& T, Eigen::VectorXd& values);

}  // namespace spectralclip::factor

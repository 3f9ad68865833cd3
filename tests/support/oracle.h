// SPDX-License-Identifier: Apache-2.0
// Matrices of a given spectrum, and the truth about small ones: a Jacobi SVD in extended precision. In float64 Eigen's
// Jacobi loses 180 eps on a flat 64 x 64 spectrum, more than the methods it is to judge.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <random>

namespace spectralclip::testing {

[[nodiscard]] Eigen::MatrixXd gaussian(Eigen::Index rows, Eigen::Index cols, std::mt19937_64& random);

// rows x cols with the given min(rows, cols) singular values and random singular vectors.
[[nodiscard]] Eigen::MatrixXd with_spectrum(Eigen::Index rows, Eigen::Index cols, const Eigen::VectorXd& sigma,
                                            std::uint64_t seed = 1);

class Oracle {
 public:
  explicit Oracle(const Eigen::MatrixXd& G);
  [[nodiscard]] Eigen::VectorXd sigma() const;
  [[nodiscard]] Eigen::MatrixXd mapped(const Eigen::VectorXd& to) const;  // U diag(to) V^T
  [[nodiscard]] Eigen::MatrixXd clipped(double tau) const;

 private:
  using Extended = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

  Extended U_, V_;
  Eigen::VectorXd sigma_;
};

// Largest singular value, in extended precision.
[[nodiscard]] double spectral_norm(const Eigen::MatrixXd& G);

}  // namespace spectralclip::testing

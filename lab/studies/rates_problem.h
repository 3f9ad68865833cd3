// SPDX-License-Identifier: Apache-2.0
// A non-convex matrix problem of which everything is known: robust multi-output regression,
//   f(X) = sum_ij h((A X)_ij),   h(r) = r^2 / 18 + (4/9) r^2 / (1 + r^2),   X: m x n, A: m x m.
// h'(r) = r/9 + (8/9) r / (1 + r^2)^2, h''(r) = 1/9 + (8/9) (1 - 3 r^2) / (1 + r^2)^3 lies in [-1/9, 1]: the extremes
// are at |r| = 1 and r = 0. The squared singular values of A fall from 1 to 3/4, so the Hessian lies between -1/9 and
// ||A||_2^2 max h'' = 1, attained at X = 0: L = 1 exactly. f_* = 0, at X = 0, which is the only stationary point since
// h'(r) / r > 0 and A is regular. h grows like r^2: whoever is thrown far away has a large gradient there (with
// r^2 / (1 + r^2) alone he would find none and seem to have converged).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/config.h"

namespace spectralclip::lab {

class RatesProblem {
 public:
  static constexpr double kSmoothness = 1;  // L
  static constexpr double kMinimum = 0;     // f_*

  RatesProblem(const RatesConfig& config, std::uint64_t seed);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] std::size_t entries() const noexcept { return static_cast<std::size_t>(rows_ * cols_); }
  [[nodiscard]] std::span<const double> start() const noexcept { return start_; }  // entries +-distance
  [[nodiscard]] double value(std::span<const double> X) const;
  // gradient = A^T h'(A X), m x n; scratch of the same size. 4 m^2 n flops. Returns its squared Frobenius norm.
  double gradient(std::span<const double> X, std::span<double> gradient, std::span<double> scratch) const;

 private:
  std::int64_t rows_, cols_;
  std::vector<double> A_;           // m x m, row-major
  std::vector<double> transposed_;  // A^T
  std::vector<double> start_;
};

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Trace regression, f(X) = 1/N sum_i (<A_i, X> - b_i)^2 over n x n matrices, and its clipped stochastic gradients.
// The gradient of one term, G_i = c_i A_i with c_i = 2 (<A_i, X> - b_i), has the singular vectors of A_i wherever X is;
// A_i = Q_i diag(e_i) Q_i^T with e_i > 0 is drawn by its factors. So C_tau(G_i) needs no SVD: its singular values are
// min(|c_i| e_ij, tau) on known directions. The same operator, at the price of a few n x n updates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/config.h"

namespace spectralclip::lab {

struct TraceProblem {
  std::int64_t n = 0;
  std::int64_t terms = 0;
  std::vector<double> A;  // terms x n x n, row-major, symmetric
  std::vector<double> Q;  // terms x n x n: row j is the j-th eigenvector of A_i …
  std::vector<double> e;  // terms x n: … of this eigenvalue, largest first, in [0.5, 1.5]
  std::vector<double> b;  // terms: <A_i, X_true> + sigma * N(0, 1), X_true of N(0, 1) entries
  double L = 0;           // 2/N sum ||A_i||_F^2, the published constant (an upper bound of the smoothness)

  [[nodiscard]] std::span<const double> matrix(std::int64_t i) const { return part(A, i, n * n); }
  [[nodiscard]] std::span<const double> direction(std::int64_t i, std::int64_t j) const {
    return part(Q, i * n + j, n);
  }
  [[nodiscard]] std::span<const double> eigenvalues(std::int64_t i) const { return part(e, i, n); }

 private:
  static std::span<const double> part(const std::vector<double>& all, std::int64_t i, std::int64_t size) {
    return std::span(all).subspan(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size));
  }
};

[[nodiscard]] TraceProblem make_trace_problem(const TraceConfig& config, std::uint64_t seed);

// c_i of G_i = c_i A_i.
[[nodiscard]] double slope(const TraceProblem& problem, std::int64_t i, std::span<const double> X);

// out += weight * C_tau(c A_i); returns sigma_max of c A_i. Cost: n^2 per clipped direction, n^2 when none or all are.
double add_clipped(const TraceProblem& problem, std::int64_t i, double c, double tau, double weight,
                   std::span<double> out);

// out += weight * (c A_i - C_tau(c A_i)): nothing at all, in bits, when nothing exceeds tau.
void add_removed(const TraceProblem& problem, std::int64_t i, double c, double tau, double weight,
                 std::span<double> out);

}  // namespace spectralclip::lab

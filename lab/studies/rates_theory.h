// SPDX-License-Identifier: Apache-2.0
// Theorems 1 and 2 of the paper as formulas: step sizes, thresholds and bounds, with every constant as stated.
//   Theorem 1: min_k E ||grad f||_F^2 <= 16 L gap / sqrt K + C tau^(2-alpha) sigma^alpha / (8 sqrt K) + 2/K sum
//   Delta_k,
//              eta = 1 / (4 L sqrt K), any tau, C = 2^(4-alpha) d^(1-alpha/2).
//   Theorem 2: min_k E phi(||grad f||_F) <= 4 gap / (eta K) + 32 tau^(-2(alpha-1)) sigma^(2 alpha)
//              + 8 eta d L tau^(2-alpha) sigma^alpha, phi(t) = min(t, t^2), eta <= 1 / (4 d L), tau >= max(2, 8 sigma).
// Both proofs bound the average over k, so the average obeys the bounds too. Norm clipping is the case d = 1.
#pragma once

#include <cstdint>

#include "noise/noise.h"

namespace spectralclip::lab {

struct TheoryInput {
  double L = 1;
  double gap = 0;          // f(X_0) - f_*
  double alpha = 2;        // in (1, 2]
  double sigma_power = 0;  // sigma^alpha: bound on E ||G - grad f||_F^alpha
  double d = 1;            // min(m, n), or 1 for norm clipping

  [[nodiscard]] double sigma() const;
};

struct Schedule {
  double eta = 0;
  double tau = 0;  // infinity: no clipping
};

[[nodiscard]] Schedule theorem1_schedule(const TheoryInput& in, double K, double tau);
// The smallest tau and the largest eta that give the rate (second part of the theorem).
[[nodiscard]] Schedule theorem2_schedule(const TheoryInput& in, double K);

// mean_delta: (1/K) sum_k Delta_k. Infinite where the theorem says nothing (no clipping, alpha < 2).
[[nodiscard]] double theorem1_bound(const TheoryInput& in, const Schedule& schedule, double K, double mean_delta);
[[nodiscard]] double theorem2_bound(const TheoryInput& in, const Schedule& schedule, double K);

inline constexpr double kTheorem1Exponent = -0.5;      // of K, beside the bias
[[nodiscard]] double theorem2_exponent(double alpha);  // (2 - 2 alpha) / (3 alpha - 2)

// A bound on E ||N||_F^alpha for add_noise with probability 1, alpha in (0, 2] and below the tail index.
// Exact for Gaussian entries and for one rank-one term. For a sum of symmetric independent terms Z_i (all other kinds):
// E ||sum Z_i||^alpha <= E (sum ||Z_i||^2)^(alpha/2) <= sum E ||Z_i||^alpha, by Jensen over the signs and alpha/2 <= 1.
// One Pareto term: E |s|^alpha = scale^alpha tail / (tail - alpha).
[[nodiscard]] double noise_moment(const NoiseConfig& noise, std::int64_t rows, std::int64_t cols, double alpha);

}  // namespace spectralclip::lab

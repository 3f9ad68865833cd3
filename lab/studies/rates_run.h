// SPDX-License-Identifier: Apache-2.0
// One run of clipped SGD on the problem of rates, and the bias of the clipped gradient along it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "noise/draws.h"
#include "studies/rates_cell.h"

namespace spectralclip::lab {

// Clips G (m x n, packed) in place. Nothing is decomposed while ||G||_F <= tau. False when G is not finite.
bool clip_by(ClipMethod method, double tau, std::span<double> G, std::int64_t rows, std::int64_t cols);

// Delta = ||grad - E C_tau(grad + N)||_F^2 without bias: <grad - mean_1, grad - mean_2> over two independent halves of
// `samples` draws. The noise is symmetric, so each draw N is used as +N and -N: where nothing is clipped the pair
// averages to grad itself, and the estimate is zero up to rounding.
class BiasEstimator {
 public:
  BiasEstimator(const RatesConfig& config, std::int64_t rows, std::int64_t cols);
  [[nodiscard]] double estimate(ClipMethod method, double tau, std::span<const double> gradient, Draws& draws);

 private:
  void add_pair(ClipMethod method, double tau, std::span<const double> gradient, Draws& draws, std::span<double> sum);

  NoiseConfig noise_;
  std::int64_t rows_, cols_, pairs_;
  std::vector<double> half_[2], noise_matrix_, G_;
};

struct RunResult {
  std::vector<double> values;  // phi or square of the gradient's norm at X_0 … X_{K-1}
  double mean_delta = 0;       // estimate of (1/K) sum Delta_k from one random step in each of bias_points strata
  bool diverged = false;
};

// Overwrites `result`, whose memory is used again.
void run_once(const RatesProblem& problem, const RatesConfig& config, const CellPlan& plan, std::uint64_t seed,
              std::int64_t repeat, RunResult& result);

}  // namespace spectralclip::lab

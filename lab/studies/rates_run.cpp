// SPDX-License-Identifier: Apache-2.0
#include "studies/rates_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip::lab {
namespace {

double squared_norm(std::span<const double> x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

// One step in each of `points` nearly equal parts of 0 … K - 1, so that the weighted sum is unbiased.
struct Stratum {
  std::int64_t step = 0;
  double weight = 0;  // its share of the steps
};
std::vector<Stratum> draw_strata(std::int64_t K, std::int64_t points, Draws& draws) {
  points = std::min(points, K);
  std::vector<Stratum> strata;
  for (std::int64_t j = 0; j < points; ++j) {
    const std::int64_t low = j * K / points, high = (j + 1) * K / points;
    strata.push_back({low + draws.below(high - low), static_cast<double>(high - low) / static_cast<double>(K)});
  }
  return strata;
}

}  // namespace

bool clip_by(ClipMethod method, double tau, std::span<double> G, std::int64_t rows, std::int64_t cols) {
  const double norm = std::sqrt(squared_norm(G));
  if (!std::isfinite(norm)) return false;
  if (method == ClipMethod::none || norm <= tau) return true;
  if (method == ClipMethod::norm) {
    for (double& x : G) x *= tau / norm;
    return true;
  }
  // gram: everything above tau in float64, at a third of the price of `exact` for 8 x 8.
  const ClipReport report =
      clip_singular_values(MatrixView<double>(G.data(), rows, cols), tau, {.method = Method::gram});
  return report.status == ClipStatus::ok;
}

BiasEstimator::BiasEstimator(const RatesConfig& config, std::int64_t rows, std::int64_t cols)
    : noise_(noise_of(config)), rows_(rows), cols_(cols), pairs_(std::max<std::int64_t>(1, config.bias_samples / 4)) {
  for (auto* buffer : {&half_[0], &half_[1], &noise_matrix_, &G_})
    buffer->resize(static_cast<std::size_t>(rows * cols));
}

// sum += 2 grad - C(grad + N) - C(grad - N)
void BiasEstimator::add_pair(ClipMethod method, double tau, std::span<const double> gradient, Draws& draws,
                             std::span<double> sum) {
  std::fill(noise_matrix_.begin(), noise_matrix_.end(), 0.0);
  add_noise(MatrixView<double>(noise_matrix_.data(), rows_, cols_), noise_, draws);
  for (const double sign : {1.0, -1.0}) {
    for (std::size_t i = 0; i < G_.size(); ++i) G_[i] = gradient[i] + sign * noise_matrix_[i];
    if (!clip_by(method, tau, G_, rows_, cols_)) std::fill(G_.begin(), G_.end(), std::nan(""));
    for (std::size_t i = 0; i < G_.size(); ++i) sum[i] += gradient[i] - G_[i];
  }
}

double BiasEstimator::estimate(ClipMethod method, double tau, std::span<const double> gradient, Draws& draws) {
  for (auto& half : half_) {
    std::fill(half.begin(), half.end(), 0.0);
    for (std::int64_t pair = 0; pair < pairs_; ++pair) add_pair(method, tau, gradient, draws, half);
  }
  const auto count = static_cast<double>(2 * pairs_);
  return std::inner_product(half_[0].begin(), half_[0].end(), half_[1].begin(), 0.0) / (count * count);
}

void run_once(const RatesProblem& problem, const RatesConfig& config, const CellPlan& plan, std::uint64_t seed,
              std::int64_t repeat, RunResult& result) {
  const std::int64_t rows = problem.rows(), cols = problem.cols();
  const NoiseConfig noise = noise_of(config);
  const std::int64_t address = 2 * plan.place + plan.theorem;  // not the method: all see the same noise
  Draws draws(seed, "rates.noise", address, repeat), bias_draws(seed, "rates.bias", address, repeat);
  const bool biased = plan.theorem == 1 && plan.method != ClipMethod::none;
  const std::vector<Stratum> strata = draw_strata(plan.K, biased ? config.bias_points : 0, bias_draws);
  auto next = strata.begin();
  BiasEstimator bias(config, rows, cols);

  std::vector<double> X(problem.start().begin(), problem.start().end());
  std::vector<double> gradient(X.size()), G(X.size());
  result = {.values = std::move(result.values), .mean_delta = 0, .diverged = false};
  result.values.assign(static_cast<std::size_t>(plan.K), 0.0);
  for (std::int64_t k = 0; k < plan.K; ++k) {
    const double square = problem.gradient(X, gradient, G);
    result.values[static_cast<std::size_t>(k)] = plan.theorem == 1 ? square : std::min(std::sqrt(square), square);
    if (next != strata.end() && next->step == k) {
      result.mean_delta += next->weight * bias.estimate(plan.method, plan.schedule.tau, gradient, bias_draws);
      ++next;
    }
    std::copy(gradient.begin(), gradient.end(), G.begin());
    add_noise(MatrixView<double>(G.data(), rows, cols), noise, draws);
    if (!clip_by(plan.method, plan.schedule.tau, G, rows, cols)) {
      result.diverged = true;
      return;
    }
    for (std::size_t i = 0; i < X.size(); ++i) X[i] -= plan.schedule.eta * G[i];
  }
}

}  // namespace spectralclip::lab

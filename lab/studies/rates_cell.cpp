// SPDX-License-Identifier: Apache-2.0
#include "studies/rates_cell.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "constants.h"
#include "studies/rates_run.h"

namespace spectralclip::lab {
namespace {

constexpr std::int64_t kParts = 10;  // of a run

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of one number per run.
struct Moments {
  double sum = 0, squares = 0;

  void add(double value) {
    sum += value;
    squares += value * value;
  }
};

// Sums over the runs, in their order.
struct Sums {
  std::vector<double> at_step;
  std::vector<Moments> parts;
  Moments whole;
  double delta = 0;
  std::int64_t diverged = 0;

  explicit Sums(std::int64_t K)
      : at_step(static_cast<std::size_t>(K)), parts(static_cast<std::size_t>(std::min(K, kParts))) {}

  void add(const RunResult& run) {
    const std::span<const double> values = run.values;
    for (std::size_t k = 0; k < values.size(); ++k) at_step[k] += values[k];
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t low = i * values.size() / parts.size(), high = (i + 1) * values.size() / parts.size();
      parts[i].add(mean_of(values.subspan(low, high - low)));
    }
    whole.add(mean_of(values));
    delta += run.mean_delta;
    diverged += run.diverged ? 1 : 0;
  }
};

double bound_of(const CellPlan& plan, double mean_delta) {
  const auto K = static_cast<double>(plan.K);
  const double bound = plan.theorem == 1 ? theorem1_bound(plan.input, plan.schedule, K, mean_delta)
                                         : theorem2_bound(plan.input, plan.schedule, K);
  return std::isnan(bound) ? kInfinity : bound;
}

}  // namespace

const char* to_string(ClipMethod method) noexcept {
  return method == ClipMethod::spectral ? "spectral" : method == ClipMethod::norm ? "norm" : "none";
}

NoiseConfig noise_of(const RatesConfig& config) {
  return {.kind = config.noise,
          .probability = 1,
          .scale = config.noise_scale,
          .alpha = config.tail,
          .rank = config.noise_rank};
}

CellPlan make_plan(const RatesProblem& problem, const RatesConfig& config, ClipMethod method, int theorem,
                   std::int64_t K, std::int64_t place) {
  const std::int64_t rows = problem.rows(), cols = problem.cols();
  CellPlan plan{.method = method, .theorem = theorem, .K = K, .place = place, .input = {}, .schedule = {}};
  plan.input = {.L = RatesProblem::kSmoothness,
                .gap = problem.value(problem.start()) - RatesProblem::kMinimum,
                .alpha = config.alpha,
                .sigma_power = noise_moment(noise_of(config), rows, cols, config.alpha),
                .d = method == ClipMethod::norm ? 1 : static_cast<double>(std::min(rows, cols))};
  const auto steps = static_cast<double>(K);
  plan.schedule =
      theorem == 1 ? theorem1_schedule(plan.input, steps, config.tau) : theorem2_schedule(plan.input, steps);
  if (method == ClipMethod::none) plan.schedule.tau = kInfinity;
  return plan;
}

// As many runs at a time as there are threads; their results are added in the order of the runs.
CellResult run_cell(const RatesProblem& problem, const RatesConfig& config, const CellPlan& plan, std::uint64_t seed,
                    Executor& executor) {
  Sums sums(plan.K);
  std::vector<RunResult> batch(static_cast<std::size_t>(executor.concurrency()));
  for (std::int64_t first = 0; first < config.repeats; first += executor.concurrency()) {
    const std::int64_t count = std::min<std::int64_t>(executor.concurrency(), config.repeats - first);
    auto run = [&](std::int64_t i) {
      run_once(problem, config, plan, seed, first + i, batch[static_cast<std::size_t>(i)]);
    };
    executor.run(count, run);
    for (std::int64_t i = 0; i < count; ++i) sums.add(batch[static_cast<std::size_t>(i)]);
  }
  const auto repeats = static_cast<double>(config.repeats);
  CellResult result;
  result.mean_delta = sums.delta / repeats;
  result.bound = bound_of(plan, result.mean_delta);
  result.diverged = sums.diverged;
  result.measured = result.average = {kNaN, kNaN, kNaN};
  result.least = kNaN;
  if (sums.diverged > 0) return result;
  const auto best = std::min_element(sums.parts.begin(), sums.parts.end(),
                                     [](const Moments& a, const Moments& b) { return a.sum < b.sum; });
  result.measured = mean_interval(best->sum, best->squares, repeats);
  result.least = *std::min_element(sums.at_step.begin(), sums.at_step.end()) / repeats;
  result.average = mean_interval(sums.whole.sum, sums.whole.squares, repeats);
  return result;
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Trace regression against its definition: matrices, thresholds and biases are computed here once more, by full SVDs
// and by hand-written policies; only A, b and the drawn indices are shared.
#include "studies/trace_regression.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "constants.h"
#include "lab/memory_recorder.h"
#include "lab/trace_matrices.h"
#include "spectralclip/error.h"
#include "studies/trace_method.h"
#include "studies/trace_problem.h"

namespace spectralclip::lab {
namespace {

Config short_config(std::int64_t steps, std::uint64_t seed = 11) {
  Config config;
  config.task = "trace-regression";
  config.seed = seed;
  config.train.steps = steps;
  config.record.log_every = 1;
  return config;
}

Config published_config(std::int64_t steps) {
  Config config = short_config(steps);
  config.trace.bias = "monte_carlo";
  config.trace.quantile_first_step = "unclipped";
  config.trace.ema_eps = 1e-8;
  return config;
}

// One method, straight from the paper.
class Simulation {
 public:
  Simulation(const Config& config, std::string name)
      : config_(config), problem_(make_trace_problem(config.trace, config.seed)), name_(std::move(name)) {
    X_ = Matrix::Zero(config.trace.n, config.trace.n);
  }

  double advance(std::int64_t step) {  // returns Delta
    TraceSample sample;
    draw_trace_sample(config_.trace, config_.seed, step, sample);
    const double tau = threshold_now();
    const double delta = (full_gradient() - expected_clip(sample, tau)).squaredNorm();
    const Matrix G = gradient(sample.term);
    X_ -= config_.trace.lr_scale / smoothness() * clipped_by_svd(G, tau);
    seen_.push_back(sigma_max_of(G));
    return delta;
  }
  [[nodiscard]] const Matrix& X() const { return X_; }

 private:
  [[nodiscard]] Matrix gradient(std::int64_t i) const {
    const Matrix A = matrix_of(problem_, i);
    return 2 * (A.cwiseProduct(X_).sum() - problem_.b[static_cast<std::size_t>(i)]) * A;
  }
  [[nodiscard]] Matrix full_gradient() const {
    Matrix sum = Matrix::Zero(X_.rows(), X_.cols());
    for (std::int64_t i = 0; i < problem_.terms; ++i) sum += gradient(i);
    return sum / static_cast<double>(problem_.terms);
  }
  [[nodiscard]] double smoothness() const {
    double sum = 0;
    for (std::int64_t i = 0; i < problem_.terms; ++i) sum += matrix_of(problem_, i).squaredNorm();
    return 2 * sum / static_cast<double>(problem_.terms);
  }
  [[nodiscard]] Matrix expected_clip(const TraceSample& sample, double tau) const {
    std::vector<std::int64_t> terms = sample.bias;
    for (std::int64_t i = 0; sample.bias.empty() && i < problem_.terms; ++i) terms.push_back(i);
    Matrix sum = Matrix::Zero(X_.rows(), X_.cols());
    for (const std::int64_t i : terms) sum += clipped_by_svd(gradient(i), tau);
    return sum / static_cast<double>(terms.size());
  }
  [[nodiscard]] double threshold_now() const {
    if (name_ == "EMA") return ema();
    if (name_ == "Quantile") return quantile();
    return std::stod(name_.substr(name_.rfind('_') + 1));
  }
  [[nodiscard]] double ema() const {
    double average = 0;
    for (const double sigma : seen_) average = 0.9 * average + 0.1 * (sigma + config_.trace.ema_eps);
    return seen_.empty() ? 0 : average / (1 - std::pow(0.9, static_cast<double>(seen_.size())));
  }
  [[nodiscard]] double quantile() const {  // numpy.quantile(seen[-window:], 0.85)
    if (seen_.empty()) return config_.trace.quantile_first_step == "zero" ? 0 : kInfinity;
    const auto window = std::min<std::ptrdiff_t>(config_.trace.window, static_cast<std::ptrdiff_t>(seen_.size()));
    std::vector<double> last(seen_.end() - window, seen_.end());
    std::sort(last.begin(), last.end());
    const double position = 0.85 * static_cast<double>(last.size() - 1);
    const auto i = static_cast<std::size_t>(position);
    const double share = position - std::floor(position);
    return i + 1 < last.size() ? (1 - share) * last[i] + share * last[i + 1] : last[i];
  }

  Config config_;
  TraceProblem problem_;
  std::string name_;
  Matrix X_;
  std::vector<double> seen_;
};

// Cumulative averages, as logged, against this file's own simulation of each method.
void expect_simulated(const Config& config) {
  auto experiment = make_trace_regression(config);
  MemoryRecorder recorder;
  run_steps(*experiment, 1, config.train.steps, recorder);
  ASSERT_EQ(recorder.lines.size(), static_cast<std::size_t>(config.train.steps));
  ASSERT_EQ(recorder.lines[0].second.size(), 2 + config.trace.taus.size());
  for (const auto& [name, unused] : recorder.lines[0].second.items()) {
    Simulation simulation(config, name);
    double sum = 0;
    for (const auto& [step, line] : recorder.lines) {
      sum += simulation.advance(step);
      const double average = sum / static_cast<double>(step);
      // Rounding of Delta grows with the gradient (up to about 10) and with the steps that carry it on.
      EXPECT_NEAR(line[name].get<double>(), average, 1e-11 * (1 + average)) << name << " at step " << step;
    }
  }
}

TEST(TraceRegression, BiasIsTheDefinition) { expect_simulated(short_config(130)); }  // beyond one window of 100
TEST(TraceRegression, BiasByDrawsIsThePublishedOne) { expect_simulated(published_config(130)); }
TEST(TraceRegression, OtherSizesToo) {
  Config config = short_config(25);
  config.trace.n = 6;
  config.trace.terms = 4;
  config.trace.window = 7;
  expect_simulated(config);
}

// tau = 0 at first: the EMA's first bias is the whole gradient and its first step goes nowhere; the published quantile
// starts unclipped, so its first bias by expectation is exactly zero.
TEST(TraceRegression, FirstSteps) {
  Config config = published_config(2);
  config.trace.bias = "expectation";
  auto experiment = make_trace_regression(config);
  MemoryRecorder recorder;
  run_steps(*experiment, 1, 2, recorder);
  const TraceProblem problem = make_trace_problem(config.trace, config.seed);
  Matrix gradient = Matrix::Zero(3, 3);
  for (std::int64_t i = 0; i < 10; ++i)
    gradient -= 0.2 * problem.b[static_cast<std::size_t>(i)] * matrix_of(problem, i);
  EXPECT_NEAR(recorder.lines[0].second["EMA"], gradient.squaredNorm(), 1e-13 * gradient.squaredNorm());
  EXPECT_EQ(recorder.lines[0].second["Quantile"], 0);
  Simulation ema(config, "EMA");
  (void)ema.advance(1);
  EXPECT_EQ(ema.X().norm(), 0);
  config.trace.first_step = config.trace.quantile_first_step = "zero";
  auto zero = make_trace_regression(config);
  zero->step(1, recorder);
  EXPECT_EQ(recorder.lines[2].second["Quantile"], recorder.lines[0].second["EMA"]);
}

// The paper's finding: a small constant tau keeps a bias, adaptive ones and large ones do not. (All singular values of
// c A_i above tau means a step along the identity: nothing else of X is ever corrected.)
TEST(TraceRegression, SmallConstantThresholdsKeepABias) {
  for (const std::uint64_t seed : {11U, 12U, 13U}) {
    Config config = short_config(100000, seed);
    config.record.log_every = 50000;
    auto experiment = make_trace_regression(config);
    MemoryRecorder recorder;
    run_steps(*experiment, 1, 100000, recorder);
    const auto results = experiment->results();
    const double floor = results["constant_tau_0.05_last_tenth"];
    EXPECT_GT(floor, 0.01) << seed;
    for (const char* name : {"EMA_last_tenth", "Quantile_last_tenth", "constant_tau_5.0_last_tenth"}) {
      EXPECT_LT(results[name].get<double>(), 0.1 * floor) << seed << " " << name;
    }
    EXPECT_LT(results["Quantile"].get<double>(), results["EMA"].get<double>()) << seed;
  }
}

TEST(TraceRegression, ResultsAreWhatWasLogged) {
  Config config = short_config(200);
  config.record.log_every = 70;
  auto experiment = make_trace_regression(config);
  MemoryRecorder all, recorder;
  run_steps(*experiment, 1, 200, recorder);
  const auto results = experiment->results();
  EXPECT_EQ(results.begin().key(), "EMA");
  EXPECT_EQ(recorder.lines.size(), 23U);  // 1 … 20, 70, 140, 200
  EXPECT_EQ(recorder.lines.back().first, 200);
  for (const auto& [name, value] : recorder.lines.back().second.items()) EXPECT_EQ(results[name], value);
  config.record.log_every = 1;
  run_steps(*make_trace_regression(config), 1, 200, all);
  const double last =
      (200 * all.lines[199].second["EMA"].get<double>() - 180 * all.lines[179].second["EMA"].get<double>()) / 20;
  EXPECT_NEAR(results["EMA_last_tenth"], last, 1e-12);
  EXPECT_EQ(experiment->headline().second, results["EMA"].get<double>());
}

TEST(TraceRegression, SavedHalfWayGoesOnWithTheSameBits) {
  for (const Config& config : {short_config(300), published_config(300)}) {
    MemoryRecorder whole, parts;
    auto one = make_trace_regression(config), first = make_trace_regression(config),
         second = make_trace_regression(config);
    run_steps(*one, 1, 300, whole);
    run_steps(*first, 1, 137, parts);
    second->load(MemoryState(saved(*first)));
    run_steps(*second, 138, 300, parts);
    EXPECT_EQ(whole.lines, parts.lines);
    EXPECT_EQ(one->results(), second->results());
    EXPECT_EQ(saved(*one), saved(*second));
  }
}

TEST(TraceRegression, ForeignOrDamagedStateIsRefused) {
  auto experiment = make_trace_regression(short_config(50));
  MemoryRecorder recorder;
  run_steps(*experiment, 1, 10, recorder);
  const Sections good = saved(*experiment);
  EXPECT_THROW(experiment->load(MemoryState()), StateFileError);
  Sections bad = good;
  bad["trace"].pop_back();
  EXPECT_THROW(experiment->load(MemoryState(bad)), StateFileError);
  bad = good;
  bad["trace"].push_back(0);
  EXPECT_THROW(experiment->load(MemoryState(bad)), StateFileError);
  EXPECT_THROW(make_trace_regression(short_config(60))->load(MemoryState(good)), StateFileError);
  Config other = short_config(50);
  other.trace.window = 5;
  EXPECT_THROW(make_trace_regression(other)->load(MemoryState(good)), StateFileError);
  other = short_config(50);
  other.trace.n = 4;
  EXPECT_THROW(make_trace_regression(other)->load(MemoryState(good)), StateFileError);
  other = short_config(50);
  other.trace.taus = {0.05};
  EXPECT_THROW(make_trace_regression(other)->load(MemoryState(good)), StateFileError);
  EXPECT_EQ(saved(*experiment), good);  // untouched by the refusals
}

TEST(TraceRegression, MisuseIsRefused) {
  Config config = short_config(10);
  config.trace.bias = "guess";
  EXPECT_THROW((void)make_trace_regression(config), InvalidArgument);
  config = short_config(10);
  config.trace.n = 65;
  EXPECT_THROW((void)make_trace_regression(config), InvalidArgument);
  config = short_config(10);
  config.trace.taus = {0.5, 0.5};
  EXPECT_THROW((void)make_trace_regression(config), InvalidArgument);
  config = short_config(10);
  config.trace.first_step = "half";
  EXPECT_THROW((void)make_trace_regression(config), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::lab

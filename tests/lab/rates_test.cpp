// SPDX-License-Identifier: Apache-2.0
// The study of rates: its estimators, one run, and a short study as a whole.
#include "studies/rates.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "lab/memory_recorder.h"
#include "noise/draws.h"
#include "rates_vectors.h"
#include "spectralclip/error.h"
#include "studies/rates_problem.h"
#include "studies/rates_run.h"
#include "studies/rates_theory.h"
#include "studies/tasks.h"

namespace spectralclip::lab {
namespace {

TEST(BiasEstimator, ZeroWithoutClipping) {
  BiasEstimator bias({.noise_scale = 0.1, .noise = "gaussian"}, 2, 3);
  Draws draws(1, "bias");
  const Vector gradient(6, 0.1);
  for (int i = 0; i < 10; ++i) EXPECT_LT(std::abs(bias.estimate(ClipMethod::spectral, 100, gradient, draws)), 1e-30);
}

// 1 x 1 matrices: C_tau(g + N) is g + N clamped to [-tau, tau], and its mean under Gaussian noise is elementary. With
// two draws a half, an estimator that squares one mean would be too large by its variance, tens of standard errors.
TEST(BiasEstimator, UnbiasedAgainstTheClosedForm) {
  constexpr double kGradient = 0.8, kScale = 0.7, kTau = 1;
  const auto below = [](double x) { return std::erfc(-x / std::sqrt(2)) / 2; };
  const auto density = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); };
  const double a = (-kTau - kGradient) / kScale, b = (kTau - kGradient) / kScale;
  const double mean =
      kTau * (1 - below(b)) - kTau * below(a) + kGradient * (below(b) - below(a)) - kScale * (density(b) - density(a));
  for (const ClipMethod method : {ClipMethod::spectral, ClipMethod::norm}) {
    BiasEstimator bias({.noise_scale = kScale, .noise = "gaussian", .bias_samples = 4}, 1, 1);
    Draws draws(1, "bias");
    constexpr int kTrials = 40000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kTrials; ++i) {
      const double delta = bias.estimate(method, kTau, Vector{kGradient}, draws);
      sum += delta;
      squares += delta * delta;
    }
    const double average = sum / kTrials, error = std::sqrt((squares / kTrials - average * average) / kTrials);
    EXPECT_NEAR(average, (kGradient - mean) * (kGradient - mean), 5 * error);
    EXPECT_LT(error, 0.05 * average);
  }
}

TEST(ClipBy, MethodsDoWhatTheyAreCalled) {
  const Vector G = {3, 0, 0, 4};  // singular values 4 and 3, norm 5
  Vector spectral = G, scaled = G, none = G, inside = G;
  EXPECT_TRUE(clip_by(ClipMethod::spectral, 3.5, spectral, 2, 2));
  EXPECT_NEAR(norm(sum_of(spectral, -1, {3, 0, 0, 3.5})), 0, 1e-14);
  EXPECT_TRUE(clip_by(ClipMethod::norm, 2.5, scaled, 2, 2));
  EXPECT_NEAR(norm(sum_of(scaled, -1, {1.5, 0, 0, 2})), 0, 1e-14);
  EXPECT_TRUE(clip_by(ClipMethod::none, 1, none, 2, 2));
  EXPECT_EQ(none, G);
  EXPECT_TRUE(clip_by(ClipMethod::spectral, 5, inside, 2, 2));
  EXPECT_EQ(inside, G);
  Vector broken = {1, std::nan(""), 0, 1};
  for (const ClipMethod method : kClipMethods) EXPECT_FALSE(clip_by(method, 0.5, broken, 2, 2));
}

Config short_study() {
  Config config;
  config.task = "rates";
  config.train.steps = 600;
  config.rates.rows = 4;
  config.rates.cols = 5;
  config.rates.first_steps = 60;
  config.rates.points = 4;
  config.rates.repeats = 12;
  return config;
}

TEST(Rates, NoBoundIsViolated) {
  for (const char* noise : {"rank_pareto", "pareto", "gaussian"}) {
    Config config = short_study();
    config.rates.noise = noise;
    auto study = make_rates(config);
    ASSERT_EQ(study->steps(), 4 * 2 * 3);
    MemoryRecorder recorder;
    run_steps(*study, 1, study->steps(), recorder);
    for (const auto& [step, line] : recorder.lines) {
      EXPECT_GT(line["measured"].get<double>(), 0);
      EXPECT_LE(line["least"].get<double>(), line["measured"].get<double>() * (1 + 1e-12));
      EXPECT_LE(line["measured"].get<double>(), line["average"].get<double>() * (1 + 1e-12));
      EXPECT_TRUE(line["method"] == "none" || line["average"] <= line["bound"]) << line.dump();
    }
    const auto results = study->results();
    EXPECT_EQ(results.begin().key(), "spectral_exponent");
    for (const char* prefix : {"spectral", "norm", "spectral_theorem1", "norm_theorem1"}) {
      const std::string name = prefix;
      EXPECT_LE(results[name + "_average_ratio"].get<double>(), 1) << name;
      EXPECT_LE(results[name + "_ratio"].get<double>(), results[name + "_average_ratio"].get<double>()) << name;
      EXPECT_LT(results[name + "_average_exponent"].get<double>(), 0) << name;
    }
    EXPECT_EQ(results["spectral_theory"], theorem2_exponent(config.rates.alpha));
    EXPECT_EQ(results["spectral_theorem1_theory"], kTheorem1Exponent);
    EXPECT_EQ(results["diverged_runs"], 0);
  }
}

// One run against X <- X - eta C_tau(G) written out with a full SVD, with a tau that clips nearly every step.
TEST(Rates, RunIsClippedSgd) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Config config = short_study();
  const RatesProblem problem(config.rates, 1);
  for (const int theorem : {1, 2}) {
    CellPlan plan = make_plan(problem, config.rates, ClipMethod::spectral, theorem, 60, 3);
    plan.schedule.tau = 0.3;
    RunResult run;
    run_once(problem, config.rates, plan, 9, 2, run);
    ASSERT_EQ(run.values.size(), 60U);
    Draws draws(9, "rates.noise", 2 * 3 + theorem, 2);
    Vector X(problem.start().begin(), problem.start().end());
    int clipped = 0;
    for (const double value : run.values) {
      Vector G = gradient_of(problem, X);
      const double size = norm(G), expected = theorem == 1 ? size * size : std::min(size, size * size);
      EXPECT_NEAR(value, expected, 1e-10 * expected);
      add_noise(MatrixView<double>(G.data(), 4, 5), noise_of(config.rates), draws);
      const Eigen::JacobiSVD<Matrix> svd(Eigen::Map<Matrix>(G.data(), 4, 5), Eigen::ComputeThinU | Eigen::ComputeThinV);
      const Matrix C = svd.matrixU() * svd.singularValues().cwiseMin(0.3).asDiagonal() * svd.matrixV().transpose();
      X = sum_of(X, -plan.schedule.eta, Vector(C.data(), C.data() + C.size()));
      clipped += svd.singularValues()[0] > 0.3 ? 1 : 0;
    }
    EXPECT_GT(clipped, 30);
  }
}

// Text, because NaN (null there) is not equal to itself.
std::string text_of(const MemoryRecorder& recorder) {
  std::string text;
  for (const auto& [step, line] : recorder.lines) text += std::to_string(step) + line.dump() + "\n";
  return text;
}

TEST(Rates, SavedHalfWayAndAnyNumberOfThreadsGiveTheSameBits) {
  Config config = short_study();
  MemoryRecorder whole, parts, threaded;
  auto one = make_rates(config), first = make_rates(config), second = make_rates(config);
  run_steps(*one, 1, one->steps(), whole);
  run_steps(*first, 1, 11, parts);
  second->load(MemoryState(saved(*first)));
  run_steps(*second, 12, second->steps(), parts);
  EXPECT_EQ(text_of(whole), text_of(parts));
  EXPECT_EQ(one->results().dump(), second->results().dump());
  EXPECT_EQ(saved(*one), saved(*second));
  config.threads = 5;  // does not divide the repeats
  auto many = make_rates(config);
  run_steps(*many, 1, many->steps(), threaded);
  EXPECT_EQ(saved(*one), saved(*many));
}

TEST(Rates, ForeignStateAndMisuseAreRefused) {
  auto study = make_rates(short_study());
  EXPECT_THROW(study->load(MemoryState()), StateFileError);
  Sections state = saved(*study);
  state["rates"].push_back(1);
  EXPECT_THROW(study->load(MemoryState(state)), StateFileError);
  Config config = short_study();
  config.rates.first_steps = 600;
  EXPECT_THROW((void)make_rates(config), InvalidArgument);
  config = short_study();
  config.rates.tail = config.rates.alpha;
  EXPECT_THROW((void)make_rates(config), InvalidArgument);
  config = short_study();
  config.rates.alpha = 1;
  EXPECT_THROW((void)make_rates(config), InvalidArgument);
}

// Whatever is not finite is a count and a null, not an exception.
TEST(Rates, DivergedRunsAreRecorded) {
  Config config = short_study();
  config.rates.noise = "gaussian";
  config.rates.noise_scale = 1e200;
  auto study = make_rates(config);
  MemoryRecorder recorder;
  run_steps(*study, 1, study->steps(), recorder);
  EXPECT_EQ(recorder.lines[2].second["diverged"], config.rates.repeats);
  EXPECT_TRUE(std::isnan(recorder.lines[2].second["measured"].get<double>()));
  EXPECT_NE(recorder.lines[2].second.dump().find("\"measured\":null"), std::string::npos);
  EXPECT_TRUE(std::isnan(study->results()["none_exponent"].get<double>()));
  EXPECT_GT(study->results()["diverged_runs"].get<std::int64_t>(), 0);
}

TEST(StudyTasks, MainResultIsTheFirstResult) {
  for (const TaskInfo& task : study_tasks()) {
    Config config = short_study();
    const auto results = task.make(config)->results();
    EXPECT_EQ(results.begin().key(), task.metrics.front().name) << task.name;
  }
}

}  // namespace
}  // namespace spectralclip::lab

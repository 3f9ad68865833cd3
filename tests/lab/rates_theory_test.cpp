// SPDX-License-Identifier: Apache-2.0
// What the study of rates rests on: the problem's constants, the theorems' formulas, the moments of the noise, the fit.
#include "studies/rates_theory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "constants.h"
#include "noise/draws.h"
#include "rates_vectors.h"
#include "spectralclip/error.h"
#include "studies/fit.h"
#include "studies/rates_problem.h"

namespace spectralclip::lab {
namespace {

Vector random_matrix(const RatesProblem& problem, double scale, std::int64_t step) {
  Vector X(problem.entries());
  Draws draws(17, "test", step);
  draws.fill_normal(std::span(X));
  for (double& x : X) x *= scale;
  return X;
}

TEST(RatesProblem, GradientIsTheDerivative) {
  const RatesProblem problem({.rows = 5, .cols = 3}, 1);
  constexpr double kStep = 1e-5;  // error of the central difference: step^2 / 6 f''' + eps f / step, below 1e-8
  for (int trial = 0; trial < 20; ++trial) {
    const Vector X = random_matrix(problem, 1.5, 2 * trial), D = random_matrix(problem, 1, 2 * trial + 1);
    const double slope = (problem.value(sum_of(X, kStep, D)) - problem.value(sum_of(X, -kStep, D))) / (2 * kStep);
    EXPECT_NEAR(slope, dot(gradient_of(problem, X), D), 1e-8);
  }
}

TEST(RatesProblem, SmoothnessIsExact) {
  const RatesProblem problem({.rows = 6, .cols = 4}, 2);
  double largest = 0, lowest_curvature = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const double size = std::exp2(trial % 12 - 6);
    const Vector X = random_matrix(problem, size, 2 * trial), D = random_matrix(problem, 0.01 * size, 2 * trial + 1);
    const Vector change = sum_of(gradient_of(problem, sum_of(X, 1, D)), -1, gradient_of(problem, X));
    largest = std::max(largest, norm(change) / norm(D));
    lowest_curvature = std::min(lowest_curvature, dot(change, D) / dot(D, D));
  }
  EXPECT_LE(largest, RatesProblem::kSmoothness * (1 + 1e-9));
  EXPECT_LT(lowest_curvature, -0.001);  // not convex
  // Attained: at the minimiser along the leading singular vector of A, found here by power iteration on the gradient.
  Vector D = random_matrix(problem, 1e-4, 1);
  for (int i = 0; i < 300; ++i) D = sum_of(Vector(D.size()), 1e-4 / norm(D), gradient_of(problem, D));
  EXPECT_NEAR(norm(gradient_of(problem, D)) / norm(D), RatesProblem::kSmoothness, 1e-6);
}

TEST(RatesProblem, MinimumIsKnown) {
  const RatesProblem problem({.rows = 4, .cols = 7, .distance = 0.5}, 3);
  EXPECT_EQ(problem.value(Vector(28)), RatesProblem::kMinimum);
  EXPECT_EQ(norm(gradient_of(problem, Vector(28))), 0);
  for (int trial = 0; trial < 200; ++trial) {
    const Vector X = random_matrix(problem, std::exp2(trial % 10 - 5), trial);
    EXPECT_GT(problem.value(X), 0);
    // <grad f(X), X> = sum r h'(r) > 0: no stationary point elsewhere.
    EXPECT_GT(dot(gradient_of(problem, X), X), 0);
  }
  for (const double x : problem.start()) EXPECT_EQ(std::abs(x), 0.5);
}

// By hand: alpha = 1.5, sigma^alpha = 8 (sigma = 4), d = 4, L = 2, gap = 3.
constexpr TheoryInput kInput{.L = 2, .gap = 3, .alpha = 1.5, .sigma_power = 8, .d = 4};

TEST(RatesTheory, TheoremOneByHand) {
  EXPECT_DOUBLE_EQ(theorem1_schedule(kInput, 100, 9).eta, 1.0 / 80);
  EXPECT_EQ(theorem1_schedule(kInput, 100, 9).tau, 9);
  // 16 * 2 * 3 / 10 = 9.6; C = 2^2.5 * 4^0.25 = 8; 8 * sqrt 9 * 8 / (8 * 10) = 2.4; 2 * 0.5 = 1.
  EXPECT_NEAR(theorem1_bound(kInput, {.eta = 1.0 / 80, .tau = 9}, 100, 0.5), 13.0, 1e-13);
}

TEST(RatesTheory, TheoremTwoByHand) {
  // 8 sigma = 32 rules until sigma K^0.4 exceeds it, at K = 8^2.5 = 181; 2 rules where sigma is small.
  EXPECT_NEAR(theorem2_schedule(kInput, 100).tau, 32, 1e-12);
  EXPECT_NEAR(theorem2_schedule(kInput, 100000).tau, 400, 1e-11);          // 4 * 100000^0.4
  EXPECT_NEAR(theorem2_schedule(kInput, 100000).eta, 1.0 / 16000, 1e-17);  // 400^1.5 * 2
  TheoryInput quiet = kInput;
  quiet.sigma_power = 0.001;  // sigma = 0.01
  EXPECT_DOUBLE_EQ(theorem2_schedule(quiet, 100).tau, 2);
  EXPECT_DOUBLE_EQ(theorem2_schedule(quiet, 100).eta, 1.0 / 32);  // 1 / (4 d L)
  quiet.d = 1;
  EXPECT_DOUBLE_EQ(theorem2_schedule(quiet, 100).eta, 1.0 / 8);
  // 4 * 3 / (0.01 * 100) = 12; 32 / 9 * 64 = 227.55…; 8 * 0.01 * 4 * 2 * 3 * 8 = 15.36.
  EXPECT_NEAR(theorem2_bound(kInput, {.eta = 0.01, .tau = 9}, 100), 12 + 2048.0 / 9 + 15.36, 1e-11);
}

TEST(RatesTheory, ExponentsAndSilence) {
  EXPECT_DOUBLE_EQ(theorem2_exponent(1.5), -0.4);
  EXPECT_DOUBLE_EQ(theorem2_exponent(2), -0.5);
  EXPECT_EQ(theorem1_bound(kInput, {.eta = 0.01, .tau = kInfinity}, 100, 0), kInfinity);
  EXPECT_EQ(theorem2_bound(kInput, {.eta = 0.01, .tau = kInfinity}, 100), kInfinity);
  TheoryInput plain = kInput;
  plain.alpha = 2;  // 16 L gap / 10 + 2^2 sigma^2 / (8 * 10), whatever tau is
  EXPECT_NEAR(theorem1_bound(plain, {.eta = 0.01, .tau = kInfinity}, 100, 0), 9.6 + 0.4, 1e-13);
}

TEST(RatesTheory, MomentsOfTheNoise) {
  EXPECT_NEAR(noise_moment({.kind = "rank_pareto", .scale = 0.1, .alpha = 1.6, .rank = 1}, 10, 10, 1.5),
              std::pow(0.1, 1.5) * 16, 1e-12);
  EXPECT_NEAR(noise_moment({.kind = "gaussian", .scale = 0.5}, 3, 4, 2), 12 * 0.25, 1e-12);
  EXPECT_NEAR(noise_moment({.kind = "rank_gaussian", .scale = 3, .rank = 1}, 3, 4, 1), 3 * std::sqrt(2 / M_PI), 1e-12);
  EXPECT_EQ(noise_moment({.kind = "none"}, 3, 4, 1.5), 0);
  EXPECT_THROW((void)noise_moment({.kind = "rank_pareto", .alpha = 1.5}, 3, 4, 1.5), InvalidArgument);
}

// Sampled with a tail light enough for the sample mean to settle: equal where it is exact, at most it elsewhere.
TEST(RatesTheory, MomentsBoundTheSampledOnes) {
  constexpr int kSamples = 20000;
  constexpr double kAlpha = 1.5;
  for (const char* kind : {"gaussian", "pareto", "rank_gaussian", "rank_pareto"}) {
    for (const std::int64_t rank : {1, 3}) {
      const NoiseConfig noise{.kind = kind, .probability = 1, .scale = 0.7, .alpha = 8, .rank = rank};
      double sum = 0, squares = 0;
      for (int i = 0; i < kSamples; ++i) {
        Vector N(12);
        Draws draws(23, "moments", i);
        add_noise(MatrixView<double>(N.data(), 4, 3), noise, draws);
        const double power = std::pow(norm(N), kAlpha);
        sum += power;
        squares += power * power;
      }
      const double mean = sum / kSamples, error = std::sqrt((squares / kSamples - mean * mean) / kSamples);
      const double bound = noise_moment(noise, 4, 3, kAlpha);
      EXPECT_LE(mean, bound + 5 * error) << kind << rank;
      const bool exact = std::string(kind) == "gaussian" || (rank == 1 && std::string(kind) != "pareto");
      if (exact) {
        EXPECT_GE(mean, bound - 5 * error) << kind << rank;
      }
    }
  }
}

TEST(Fit, RecoversAKnownExponent) {
  const Vector K = {100, 300, 1000, 3000, 10000};
  Vector y;
  for (const double k : K) y.push_back(7 * std::pow(k, -0.4));
  const Interval exact = fit_exponent(K, y);
  EXPECT_NEAR(exact.value, -0.4, 1e-13);
  EXPECT_NEAR(exact.low, exact.high, 1e-12);
  y[2] = 0;  // cannot be drawn in log-log: left out
  y[3] = std::nan("");
  EXPECT_NEAR(fit_exponent(K, y).value, -0.4, 1e-13);
  y[0] = -1;
  EXPECT_TRUE(std::isnan(fit_exponent(K, y).value));
}

TEST(Fit, IntervalsCoverAsOftenAsTheySay) {
  constexpr int kTrials = 4000;
  const Vector K = {100, 200, 400, 800, 1600, 3200};
  int slopes = 0, means = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Draws draws(5, "fit", trial);
    Vector y;
    double sum = 0, squares = 0;
    for (const double k : K) {
      const double noise = draws.normal();
      y.push_back(std::pow(k, -0.4) * std::exp(0.1 * noise));
      sum += 2 + noise;
      squares += (2 + noise) * (2 + noise);
    }
    const Interval slope = fit_exponent(K, y), mean = mean_interval(sum, squares, 6);
    slopes += slope.low <= -0.4 && -0.4 <= slope.high ? 1 : 0;
    means += mean.low <= 2 && 2 <= mean.high ? 1 : 0;
  }
  const double limit = 5 * std::sqrt(0.95 * 0.05 / kTrials);
  EXPECT_NEAR(static_cast<double>(slopes) / kTrials, 0.95, limit);
  EXPECT_NEAR(static_cast<double>(means) / kTrials, 0.95, limit);
}

TEST(Fit, StudentQuantiles) {
  const std::vector<std::pair<double, double>> table = {{1, 12.706}, {2, 4.303},  {4, 2.776},  {5, 2.571},  {6, 2.447},
                                                        {10, 2.228}, {20, 2.086}, {60, 2.000}, {1e6, 1.960}};
  for (const auto& [degrees, t] : table) EXPECT_NEAR(student_t975(degrees), t, 0.0035) << degrees;
}

}  // namespace
}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Each published variant by hand, the order of slack, floor, cap and warm-up, and what is never observed.
#include "spectralclip/threshold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "constants.h"
#include "spectralclip/error.h"
#include "threshold/state_check.h"

namespace spectralclip {
namespace {

ThresholdOptions of_kind(ThresholdKind kind) {
  ThresholdOptions options;
  options.kind = kind;
  return options;
}

// tau asked before each value of the history is observed, and once after the last.
std::vector<double> taus(const ThresholdOptions& options, const std::vector<double>& history) {
  ThresholdState state = make_threshold_state(options);
  std::vector<double> asked = {threshold(options, state)};
  for (const double sigma : history) {
    static_cast<void>(observe(options, state, sigma));
    asked.push_back(threshold(options, state));
  }
  return asked;
}

void expect_taus(const ThresholdOptions& options, const std::vector<double>& history,
                 const std::vector<double>& expected) {
  const std::vector<double> asked = taus(options, history);
  ASSERT_EQ(asked.size(), expected.size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (std::isinf(expected[i]) || expected[i] == 0) {
      EXPECT_EQ(asked[i], expected[i]) << to_string(options) << ", tau " << i;
    } else {
      EXPECT_NEAR(asked[i], expected[i], 16 * kEps * expected[i]) << to_string(options) << ", tau " << i;
    }
  }
}

// By hand, decay 0.9, sigma 1, 2, 3: averages 0.1, 0.29, 0.561 over 1 - 0.9^t = 0.1, 0.19, 0.271.
TEST(Ema, PaperAlgorithmOneWithTheFirstStepUnclipped) {
  expect_taus(of_kind(ThresholdKind::ema), {1, 2, 3}, {kInfinity, 1, 0.29 / 0.19, 0.561 / 0.271});
}

TEST(Ema, PaperStartsAtZero) {
  ThresholdOptions options = of_kind(ThresholdKind::ema);
  options.first_step = FirstStep::zero;
  expect_taus(options, {1, 2, 3}, {0, 1, 0.29 / 0.19, 0.561 / 0.271});
}

// The published clipper after a zero first gradient: the second is erased, the third cut to 0.1 / 0.19 = 0.526 sigma.
TEST(Ema, PublishedClipperFreezesAfterAZeroGradient) {
  ThresholdOptions options = of_kind(ThresholdKind::ema);
  options.observe_zeros = true;
  expect_taus(options, {0, 5, 5}, {kInfinity, 0, 5 * 0.1 / 0.19, 5 * 0.19 / 0.271});
}

TEST(Ema, AZeroGradientDoesNotFreezeTrainingByDefault) {
  expect_taus(of_kind(ThresholdKind::ema), {0, 0, 5, 0, 5}, {kInfinity, kInfinity, kInfinity, 5, 5, 5});
}

TEST(Ema, BiasCorrectionIsStableForDecaysNextToOne) {
  for (const double decay : {0.5, 0.999, 1 - 1e-12, 1 - 0x1p-53, 1e-300}) {
    ThresholdOptions options = of_kind(ThresholdKind::ema);
    options.decay = decay;
    ThresholdState state = make_threshold_state(options);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(observe(options, state, 7.0));
      // An average of equal values is that value. Each update rounds three times, the correction a few times more.
      EXPECT_NEAR(threshold(options, state), 7.0, (3 * (i + 1) + 8) * kEps * 7.0) << "decay " << decay;
    }
  }
}

TEST(Ema, TheLargestDoubleDoesNotMakeTheAverageInfinite) {
  const ThresholdOptions options = of_kind(ThresholdKind::ema);
  ThresholdState state = make_threshold_state(options);
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(observe(options, state, std::numeric_limits<double>::max()));
  EXPECT_TRUE(std::isfinite(state.average));
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(observe(options, state, 1.0));
  EXPECT_LT(threshold(options, state), std::numeric_limits<double>::max() * std::pow(0.9, 399));
}

// History 4, 1, 3: lower medians 4, sorted(1, 4)[0] = 1, sorted(1, 3, 4)[1] = 3; linear 4, 2.5, 3.
TEST(QuantileThreshold, PublishedClipperAndRegressionScript) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  options.quantile = 0.5;
  expect_taus(options, {4, 1, 3}, {kInfinity, 4, 1, 3});
  options.interpolation = Interpolation::linear;
  expect_taus(options, {4, 1, 3}, {kInfinity, 4, 2.5, 3});
  options.first_step = FirstStep::zero;
  expect_taus(options, {4, 1, 3}, {0, 4, 2.5, 3});
}

TEST(QuantileThreshold, ZerosAreObservedOnlyOnRequest) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  options.quantile = 0;
  expect_taus(options, {0, 4}, {kInfinity, kInfinity, 4});
  options.observe_zeros = true;
  expect_taus(options, {0, 4}, {kInfinity, 0, 0});
}

TEST(Constant, IgnoresHistoryAndFirstStep) {
  ThresholdOptions options = of_kind(ThresholdKind::constant);
  options.tau = 0.25;
  for (const FirstStep first : {FirstStep::unclipped, FirstStep::zero}) {
    options.first_step = first;
    expect_taus(options, {4, 0, 1e9}, {0.25, 0.25, 0.25, 0.25});
  }
}

TEST(Limits, SlackComesBeforeFloorAndCap) {
  ThresholdOptions options = of_kind(ThresholdKind::constant);
  options.tau = 1;
  options.slack = 3;
  expect_taus(options, {}, {3});
  options.cap = 2;
  expect_taus(options, {}, {2});  // clamped after slack: not 1 * 3, not min(1, 2) * 3
  options.slack = 0.125;
  options.floor = 0.5;
  expect_taus(options, {}, {0.5});
}

TEST(Limits, UnclippedIgnoresTheCapAndZeroObeysTheFloor) {
  ThresholdOptions options = of_kind(ThresholdKind::ema);
  options.cap = 2;
  options.floor = 1;
  expect_taus(options, {8}, {kInfinity, 2});
  options.first_step = FirstStep::zero;
  expect_taus(options, {8}, {1, 2});
  options.kind = ThresholdKind::constant;
  options.tau = kInfinity;
  expect_taus(options, {}, {2});
}

TEST(Limits, SlackThatOverflowsMeetsTheCap) {
  ThresholdOptions options = of_kind(ThresholdKind::constant);
  options.tau = options.slack = std::numeric_limits<double>::max();
  options.cap = 5;
  expect_taus(options, {}, {5});
}

TEST(Warmup, NothingIsClippedUntilEnoughWasObserved) {
  for (const ThresholdKind kind : {ThresholdKind::constant, ThresholdKind::ema, ThresholdKind::quantile}) {
    ThresholdOptions options = of_kind(kind);
    options.tau = 3;
    options.cap = 4;
    options.first_step = FirstStep::zero;
    options.warmup_steps = 2;
    expect_taus(options, {3, 3, 3}, {kInfinity, kInfinity, 3, 3});
  }
}

TEST(Observe, RefusesWhatIsNoMagnitudeAndKeepsTheState) {
  for (const ThresholdKind kind : {ThresholdKind::constant, ThresholdKind::ema, ThresholdKind::quantile}) {
    const ThresholdOptions options = of_kind(kind);
    ThresholdState state = make_threshold_state(options);
    ASSERT_TRUE(observe(options, state, 2.0));
    const ThresholdState before = state;
    for (const double bad : {kNaN, kInfinity, -kInfinity, -1.0, -std::numeric_limits<double>::denorm_min()}) {
      EXPECT_FALSE(observe(options, state, bad)) << bad;
      EXPECT_EQ(state.observed, before.observed);
      EXPECT_EQ(state.average, before.average);
      EXPECT_EQ(state.window, before.window);
      EXPECT_EQ(state.sorted, before.sorted);
    }
  }
}

TEST(Observe, NegativeZeroIsZero) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  EXPECT_FALSE(taus(options, {-0.0}).back() < kInfinity);
  options.observe_zeros = true;
  const double tau = taus(options, {-0.0}).back();
  EXPECT_EQ(tau, 0);
  EXPECT_FALSE(std::signbit(tau));
}

TEST(Observe, ReusesTheVectorsItWasGiven) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  options.window = 5;
  ThresholdState state = make_threshold_state(options);
  const double* window = state.window.data();
  const double* sorted = state.sorted.data();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(observe(options, state, 1.0 + i % 7));
    EXPECT_TRUE(fits(options, state));
  }
  EXPECT_EQ(state.window.data(), window);
  EXPECT_EQ(state.sorted.data(), sorted);
}

TEST(Observe, AStateOfOtherOptionsIsRefused) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  options.window = 5;
  ThresholdState state = make_threshold_state(options);
  options.window = 6;
  EXPECT_THROW(static_cast<void>(threshold(options, state)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(observe(options, state, 1.0)), InvalidArgument);
}

TEST(Fits, TellsADamagedStateFromASoundOne) {
  ThresholdOptions options = of_kind(ThresholdKind::quantile);
  options.window = 3;
  ThresholdState sound = make_threshold_state(options);
  EXPECT_TRUE(fits(options, sound));
  for (const double sigma : {3.0, 1.0}) ASSERT_TRUE(observe(options, sound, sigma));
  ASSERT_TRUE(fits(options, sound));
  const auto damaged = [&](auto damage) {
    ThresholdState state = sound;
    damage(state);
    return !fits(options, state);
  };
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.observed = -1; }));
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.observed = 1; }));  // a value in a slot that was never written
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.average = kNaN; }));
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.window[0] = kInfinity; }));
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.sorted[0] = 2; }));
  EXPECT_TRUE(damaged([](ThresholdState& s) { std::swap(s.sorted[0], s.sorted[1]); }));
  EXPECT_TRUE(damaged([](ThresholdState& s) { s.sorted.pop_back(); }));
  EXPECT_FALSE(fits(of_kind(ThresholdKind::ema), sound));
}

}  // namespace
}  // namespace spectralclip

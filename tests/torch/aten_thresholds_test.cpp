// SPDX-License-Identifier: Apache-2.0
// BatchThresholds against the core over random histories: every kind with every option, values that must not be
// recorded, layers without a gradient, states that go to the core and back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "aten/thresholds.h"
#include "constants.h"
#include "spectralclip/error.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using torch::aten::BatchThresholds;

constexpr std::int64_t kLayers = 5;

std::vector<ThresholdOptions> variants() {
  std::vector<ThresholdOptions> list;
  for (const ThresholdKind kind : {ThresholdKind::constant, ThresholdKind::ema, ThresholdKind::quantile}) {
    for (const FirstStep first : {FirstStep::unclipped, FirstStep::zero}) {
      for (const Interpolation interpolation : {Interpolation::lower, Interpolation::linear}) {
        for (const bool zeros : {false, true}) {
          const ThresholdOptions plain{
              .kind = kind, .window = 7, .first_step = first, .interpolation = interpolation, .observe_zeros = zeros};
          ThresholdOptions bounded = plain;
          bounded.slack = 1.3;
          bounded.floor = 0.2;
          bounded.cap = 3;
          bounded.warmup_steps = 4;
          ThresholdOptions extreme = plain;
          extreme.decay = 0.9999;
          extreme.quantile = 1;
          extreme.window = 1;
          extreme.tau = kInfinity;
          ThresholdOptions low = plain;
          low.quantile = 0;
          low.decay = 1e-3;
          low.tau = 0;
          list.insert(list.end(), {plain, bounded, extreme, low});
        }
      }
    }
  }
  return list;
}

double random_value(std::mt19937_64& random) {
  switch (random() % 12) {
    case 0:
      return 0;
    case 1:
      return -0.0;
    case 2:
      return std::numeric_limits<double>::quiet_NaN();
    case 3:
      return kInfinity;
    case 4:
      return -1;
    case 5:
      return 1.5;  // ties
    default:
      return std::exp(std::normal_distribution<double>(0, 2)(random));
  }
}

// The EMA divides by -expm1, which differs in the last place between libraries; all else is equal to the bit.
void expect_same_tau(double ours, double core, const ThresholdOptions& options) {
  if (options.kind == ThresholdKind::ema && std::isfinite(core)) {
    EXPECT_NEAR(ours, core, 8 * kEps * core);
  } else {
    EXPECT_EQ(ours, core);
  }
}

void expect_same_state(const ThresholdState& ours, const ThresholdState& core) {
  EXPECT_EQ(ours.observed, core.observed);
  EXPECT_EQ(ours.average, core.average);
  EXPECT_EQ(ours.window, core.window);
  EXPECT_EQ(ours.sorted, core.sorted);
}

struct Step {
  std::vector<double> values;
  std::vector<bool> seen;
};

Step random_step(std::mt19937_64& random) {
  Step step;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    step.values.push_back(random_value(random));
    step.seen.push_back(i == 0 || random() % 5 != 0);
  }
  return step;
}

at::Tensor mask(const std::vector<bool>& bits) {
  std::vector<double> numbers(bits.begin(), bits.end());
  return as_tensor(numbers) > 0;
}

TEST(AtenThresholds, EqualTheCoreOverRandomHistories) {
  std::mt19937_64 random(1);
  for (const ThresholdOptions& options : variants()) {
    SCOPED_TRACE(to_string(options));
    BatchThresholds ours(options, kLayers, at::kCPU);
    std::vector<ThresholdState> core(kLayers, make_threshold_state(options));
    for (int step = 0; step < 30; ++step) {
      const at::Tensor tau = ours.tau();
      const Step next = random_step(random);
      for (std::size_t i = 0; i < core.size(); ++i) {
        const double mine = tau[static_cast<std::int64_t>(i)].item<double>();
        expect_same_tau(mine, threshold(options, core[i]), options);
        EXPECT_TRUE(mine > 0 || ours.may_be_zero());
        if (next.seen[i]) observe(options, core[i], next.values[i]);
      }
      ours.observe(as_tensor(next.values), mask(next.seen));
    }
    const auto states = ours.to_states();
    for (std::size_t i = 0; i < core.size(); ++i) expect_same_state(states[i], core[i]);
  }
}

TEST(AtenThresholds, StatesGoThereAndBack) {
  std::mt19937_64 random(2);
  for (const ThresholdOptions& options : variants()) {
    SCOPED_TRACE(to_string(options));
    BatchThresholds first(options, kLayers, at::kCPU);
    for (int step = 0; step < 9; ++step)
      first.observe(as_tensor(random_step(random).values), mask(std::vector<bool>(kLayers, true)));
    BatchThresholds second(options, kLayers, at::kCPU);
    second.from_states(first.to_states());
    for (int step = 0; step < 9; ++step) {
      EXPECT_TRUE(at::equal(first.tau(), second.tau()));
      const Step next = random_step(random);
      first.observe(as_tensor(next.values), mask(next.seen));
      second.observe(as_tensor(next.values), mask(next.seen));
    }
  }
}

TEST(AtenThresholds, ForeignStatesAreRefused) {
  const ThresholdOptions quantile{.kind = ThresholdKind::quantile, .window = 7};
  BatchThresholds thresholds(quantile, 2, at::kCPU);
  EXPECT_THROW(thresholds.from_states({make_threshold_state(quantile)}), InvalidArgument);
  EXPECT_THROW(thresholds.from_states({make_threshold_state(quantile), make_threshold_state({})}), InvalidArgument);
  ThresholdOptions wrong = quantile;
  wrong.quantile = 2;
  EXPECT_THROW(BatchThresholds(wrong, 2, at::kCPU), InvalidArgument);
}

// The default may not be zero, and is not: what clip_batch saves by it would otherwise be an unclipped matrix.
TEST(AtenThresholds, SaysWhetherTauMayBeZero) {
  const auto may = [](const ThresholdOptions& options) { return BatchThresholds(options, 1, at::kCPU).may_be_zero(); };
  EXPECT_FALSE(may({}));
  EXPECT_TRUE(may({.first_step = FirstStep::zero}));
  EXPECT_FALSE(may({.first_step = FirstStep::zero, .floor = 0.1}));
  EXPECT_TRUE(may({.observe_zeros = true}));
  EXPECT_TRUE(may({.kind = ThresholdKind::constant, .tau = 0}));
  EXPECT_FALSE(may({.kind = ThresholdKind::constant, .tau = 0.1}));
}

}  // namespace
}  // namespace spectralclip::testing

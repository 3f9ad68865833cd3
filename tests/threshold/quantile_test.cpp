// SPDX-License-Identifier: Apache-2.0
// Window quantiles against a sort of the raw history, values of numpy.quantile, and the formula of the published
// clipper.
#include "threshold/quantile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "spectralclip/threshold.h"

namespace spectralclip {
namespace {

ThresholdOptions quantile_options(double q, std::int64_t window, Interpolation interpolation) {
  ThresholdOptions options;
  options.kind = ThresholdKind::quantile;
  options.quantile = q;
  options.window = window;
  options.interpolation = interpolation;
  return options;
}

// From scratch each time: copy the last `window` values, sort, look up. Linear written as a weighted mean, so that it
// shares no arithmetic with the library.
double brute_force(const std::vector<double>& history, const ThresholdOptions& options) {
  const auto used = std::min(history.size(), static_cast<std::size_t>(options.window));
  std::vector<double> last(history.end() - static_cast<std::ptrdiff_t>(used), history.end());
  std::sort(last.begin(), last.end());
  const double h = options.quantile * static_cast<double>(used - 1);
  const auto i = static_cast<std::size_t>(h);
  if (options.interpolation == Interpolation::lower) return last[i];
  const double weight = h - static_cast<double>(i);
  return (1 - weight) * last[i] + weight * last[std::min(i + 1, used - 1)];
}

// Lower must be one of the values, bit for bit; linear may differ by the rounding of two products and a sum.
void expect_agrees(const ThresholdOptions& options, const std::vector<double>& history, double tau) {
  const double expected = brute_force(history, options);
  if (options.interpolation == Interpolation::lower) {
    ASSERT_EQ(tau, expected) << to_string(options) << " after " << history.size();
  } else {
    const double largest = *std::max_element(history.begin(), history.end());
    ASSERT_NEAR(tau, expected, 4 * std::numeric_limits<double>::epsilon() * largest) << to_string(options);
  }
}

void compare_over_history(const ThresholdOptions& options, const std::vector<double>& values) {
  ThresholdState state = make_threshold_state(options);
  std::vector<double> history;
  for (const double sigma : values) {
    ASSERT_TRUE(observe(options, state, sigma));
    history.push_back(sigma);
    expect_agrees(options, history, threshold(options, state));
  }
}

TEST(Quantile, AgreesWithASortOfTheLastValues) {
  std::mt19937_64 bits(1);
  std::lognormal_distribution<double> heavy(0, 3);
  std::vector<double> values(300);
  for (double& x : values) x = heavy(bits);
  for (const std::int64_t window : {1, 2, 3, 7, 100, 1000}) {  // 1000: never filled
    for (const double q : {0.0, 0.1, 0.5, 0.85, 0.99, 1.0}) {
      compare_over_history(quantile_options(q, window, Interpolation::lower), values);
      compare_over_history(quantile_options(q, window, Interpolation::linear), values);
    }
  }
}

TEST(Quantile, TiesLeaveTheWindowOneByOne) {
  std::mt19937_64 bits(2);
  std::vector<double> values(200);
  for (double& x : values) x = static_cast<double>(1 + bits() % 3);
  for (const std::int64_t window : {1, 4, 9}) {
    compare_over_history(quantile_options(0.5, window, Interpolation::lower), values);
    compare_over_history(quantile_options(0.5, window, Interpolation::linear), values);
  }
}

TEST(Quantile, ExtremesOfTheRangeOfDoublesStayExact) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double huge = std::numeric_limits<double>::max();
  compare_over_history(quantile_options(0.5, 3, Interpolation::lower), {tiny, huge, 1.0, tiny, huge, huge, tiny});
  EXPECT_EQ(quantile_of_sorted(std::vector{huge, huge}, 0.25, Interpolation::linear), huge);
  EXPECT_EQ(quantile_of_sorted(std::vector{tiny, tiny}, 0.75, Interpolation::linear), tiny);
}

// numpy.quantile([3, 1, 4, 1.5, 9, 2.6], q), numpy 2.4.
TEST(Quantile, LinearGivesNumpysValues) {
  const std::vector<double> sorted = {1, 1.5, 2.6, 3, 4, 9};
  const std::vector<std::pair<double, double>> known = {{0, 1},       {0.1, 1.25},  {0.25, 1.775}, {0.5, 2.8},
                                                        {0.85, 5.25}, {0.99, 8.75}, {1, 9}};
  for (const auto& [q, expected] : known) {
    EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, q, Interpolation::linear), expected) << "q = " << q;
  }
}

// sorted(history)[int(q * (len - 1))] by hand: 0.85 * 5 = 4.25 -> index 4; 0.99 * 5 -> 4; only q = 1 reaches the
// largest.
TEST(Quantile, LowerNeverInterpolates) {
  const std::vector<double> sorted = {1, 1.5, 2.6, 3, 4, 9};
  EXPECT_EQ(quantile_of_sorted(sorted, 0.85, Interpolation::lower), 4);
  EXPECT_EQ(quantile_of_sorted(sorted, 0.99, Interpolation::lower), 4);
  EXPECT_EQ(quantile_of_sorted(sorted, 1.0, Interpolation::lower), 9);
  EXPECT_EQ(quantile_of_sorted(sorted, 0.19, Interpolation::lower), 1);
}

TEST(Quantile, OneSpikeDoesNotMoveTheThreshold) {
  const ThresholdOptions options = quantile_options(0.85, 100, Interpolation::lower);
  ThresholdState state = make_threshold_state(options);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(observe(options, state, 1.0));
  ASSERT_TRUE(observe(options, state, 1e6));
  EXPECT_EQ(threshold(options, state), 1.0);
}

TEST(PlaceSorted, KeepsOrderFromAnyHole) {
  const std::vector<double> rest = {1, 2, 2, 5};
  for (const double value : {0.0, 1.0, 2.0, 3.0, 7.0}) {
    std::vector<double> expected = rest;
    expected.push_back(value);
    std::sort(expected.begin(), expected.end());
    for (std::size_t hole = 0; hole <= rest.size(); ++hole) {
      std::vector<double> slots = rest;
      slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(hole), std::nan(""));
      place_sorted(slots, hole, value);
      EXPECT_EQ(slots, expected) << "value " << value << ", hole " << hole;
    }
  }
}

}  // namespace
}  // namespace spectralclip

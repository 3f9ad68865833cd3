// SPDX-License-Identifier: Apache-2.0
// Curves over seeds and thinning: exact where nothing is thinned, faithful where something is.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "report/thin.h"

namespace spectralclip::lab::report {
namespace {

MetricSeries series_of(std::size_t count, double (*value)(double)) {
  MetricSeries series;
  for (std::size_t i = 1; i <= count; ++i) {
    const double step = static_cast<double>(i);
    series.step.push_back(step);
    series.seconds.push_back(step / 10);
    series.value.push_back(value(step));
  }
  return series;
}

SeedCurve curve_of(const std::vector<MetricSeries>& runs, Spacing spacing = Spacing::linear,
                   std::size_t limit = kCurvePoints) {
  std::vector<const MetricSeries*> pointers;
  for (const MetricSeries& run : runs) pointers.push_back(&run);
  return over_seeds(pointers, spacing, limit);
}

TEST(ReportThin, SeedsAreComparedStepByStep) {
  const SeedCurve curve = curve_of({{{1, 2}, {0.1, 0.2}, {1, 2}}, {{1, 2}, {0.3, 0.4}, {3, 6}}});
  EXPECT_EQ(curve.step, std::vector<double>({1, 2}));
  EXPECT_EQ(curve.mean, std::vector<double>({2, 4}));
  EXPECT_EQ(curve.low, std::vector<double>({1, 2}));
  EXPECT_EQ(curve.high, std::vector<double>({3, 6}));
  EXPECT_DOUBLE_EQ(curve.seconds[1], 0.3);
  EXPECT_DOUBLE_EQ(curve.deviation[0], std::sqrt(2.0));  // sample deviation of 1 and 3
  EXPECT_EQ(curve.seeds, std::vector<int>({2, 2}));
}

TEST(ReportThin, ADivergedSeedEndsAndNonFiniteValuesAreLeftOut) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const SeedCurve curve = curve_of({{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}, {{1, 2}, {1, 2}, {5, inf}}});
  EXPECT_EQ(curve.seeds, std::vector<int>({2, 1, 1}));
  EXPECT_EQ(curve.mean, std::vector<double>({3, 2, 3}));
  EXPECT_EQ(curve.deviation[2], 0);
}

TEST(ReportThin, NothingGivesNothing) {
  EXPECT_TRUE(curve_of({}).step.empty());
  EXPECT_TRUE(curve_of({MetricSeries{}}).step.empty());
}

// Averages of buckets: the mean of a straight line over a bucket is its value in the middle.
TEST(ReportThin, BucketsKeepTheShape) {
  const SeedCurve curve = curve_of({series_of(100000, [](double step) { return 3 * step; })}, Spacing::linear, 1000);
  EXPECT_LE(curve.step.size(), 1000u);
  EXPECT_GE(curve.step.size(), 990u);
  for (std::size_t i = 0; i < curve.step.size(); ++i) ASSERT_NEAR(curve.mean[i], 3 * curve.step[i], 1e-6);
  for (std::size_t i = 1; i < curve.step.size(); ++i) ASSERT_GT(curve.step[i], curve.step[i - 1]);
  EXPECT_LT(curve.step.front(), 200);
  EXPECT_GT(curve.step.back(), 99800);
}

// On a logarithmic axis the first decade must not become one point.
TEST(ReportThin, LogarithmicBucketsKeepTheFirstSteps) {
  const MetricSeries run = series_of(100000, [](double step) { return 1 / step; });
  const auto first_decade = [&](Spacing spacing) {
    const SeedCurve curve = curve_of({run}, spacing, 500);
    EXPECT_LE(curve.step.size(), 500u);
    return std::count_if(curve.step.begin(), curve.step.end(), [](double step) { return step <= 10; });
  };
  EXPECT_EQ(first_decade(Spacing::logarithmic), 10);
  EXPECT_EQ(first_decade(Spacing::linear), 0);
}

TEST(ReportThin, TheEnvelopeKeepsSpikesOfBothSigns) {
  std::vector<double> values(20000, 1.0);
  values[7777] = 50;
  values[7780] = -50;
  const std::vector<std::size_t> kept = envelope(values, 300);
  EXPECT_LE(kept.size(), 300u);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), 7777u));
  EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), 7780u));
}

TEST(ReportThin, TheEnvelopePrefersNumbersToNothing) {
  std::vector<double> values(100, kNothing);
  values[55] = 2;
  const std::vector<std::size_t> kept = envelope(values, 10);
  EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), 55u));
}

TEST(ReportThin, ShortOnesAreKeptWhole) {
  EXPECT_EQ(envelope(std::vector<double>{3, 1, 2}, 3), std::vector<std::size_t>({0, 1, 2}));
  EXPECT_EQ(evenly(3, 10), std::vector<std::size_t>({0, 1, 2}));
}

TEST(ReportThin, EvenlyHasBothEnds) {
  EXPECT_EQ(evenly(101, 3), std::vector<std::size_t>({0, 50, 100}));
  EXPECT_EQ(evenly(5, 1), std::vector<std::size_t>({4}));
  EXPECT_TRUE(evenly(0, 4).empty());
}

}  // namespace
}  // namespace spectralclip::lab::report

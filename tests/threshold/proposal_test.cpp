// SPDX-License-Identifier: Apache-2.0
// Proposed thresholds against counting: no other value of the history clips closer to the share without exceeding it.
#include "spectralclip/proposal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "spectralclip/error.h"

namespace spectralclip {
namespace {

std::vector<double> pareto(std::size_t n, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> values(n);
  for (double& value : values) value = std::pow(1 - uniform(generator), -1 / 1.5);
  return values;
}

double share_above(const std::vector<double>& values, double tau) {
  const auto above = std::count_if(values.begin(), values.end(), [tau](double v) { return v > tau; });
  return static_cast<double>(above) / static_cast<double>(values.size());
}

TEST(Proposal, ClipsAtMostTheShareAndNoSmallerValueDoes) {
  for (const std::size_t n : {1U, 2U, 7U, 20U, 100U, 999U}) {
    const std::vector<double> values = pareto(n, static_cast<unsigned>(n));
    for (const double share : {0.0, 0.01, 0.05, 0.1, 0.3, 0.5, 0.95}) {
      const ThresholdProposal p = propose_threshold(values, share);
      EXPECT_EQ(p.steps, static_cast<std::int64_t>(n));
      EXPECT_EQ(p.share, share_above(values, p.tau));
      EXPECT_LE(p.share, share + 1e-12) << n << " " << share;
      std::vector<double> smaller;
      for (const double value : values)
        if (value < p.tau) smaller.push_back(value);
      if (!smaller.empty()) {
        EXPECT_GT(share_above(values, *std::max_element(smaller.begin(), smaller.end())), share);
      }
      EXPECT_LE(p.low, p.tau);
      EXPECT_GE(p.high, p.tau);
    }
  }
}

TEST(Proposal, AShareThatIsAWholeNumberOfStepsIsReached) {  // 0.05 * 20 is not 1 in binary
  for (const std::size_t n : {20U, 40U, 60U, 100U, 1000U}) {
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i + 1);
    for (const double share : {0.05, 0.1, 0.15, 0.35, 0.7}) {
      EXPECT_NEAR(propose_threshold(values, share).share, share, 1e-12) << n << " " << share;
    }
  }
}

TEST(Proposal, TheIntervalHoldsTheTrueQuantileAsOftenAsItSays) {
  for (const double share : {0.02, 0.1, 0.5}) {
    const double truth = std::pow(share, -1 / 1.5);
    int hits = 0, finite = 0;
    constexpr int kRuns = 1000;
    for (unsigned run = 0; run < kRuns; ++run) {
      const ThresholdProposal p = propose_threshold(pareto(150, 1000 + run), share);
      hits += p.low <= truth && truth < p.high ? 1 : 0;
      finite += std::isfinite(p.high) ? 1 : 0;
    }
    EXPECT_GT(hits, kRuns * (0.95 - 4 * std::sqrt(0.95 * 0.05 / kRuns))) << share;
    EXPECT_EQ(finite, share > 0.02 ? kRuns : 0);  // 150 steps of 2 %: none above is no rarity
    if (share > 0.02) {
      EXPECT_LT(hits, kRuns * 0.99);  // and it is no wider than that
    }
  }
}

TEST(Proposal, HalvesShowADrift) {
  std::vector<double> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + 0.01 * static_cast<double>(i);
  const ThresholdProposal p = propose_threshold(values, 0.1);
  EXPECT_DOUBLE_EQ(p.early, values[44]);
  EXPECT_DOUBLE_EQ(p.late, values[94]);
  EXPECT_DOUBLE_EQ(p.tau, values[89]);
}

TEST(Proposal, WhatIsNotFiniteDoesNotCount) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {nan, 1, inf, 2, -inf, 3};
  EXPECT_EQ(propose_threshold(values, 0.4).steps, 3);
  EXPECT_EQ(propose_threshold(values, 0.4).tau, 2);
  const ThresholdProposal none = propose_threshold(std::vector<double>{nan}, 0.4);
  EXPECT_EQ(none.steps, 0);
  EXPECT_TRUE(std::isnan(none.tau) && std::isnan(none.low) && std::isnan(none.late));
}

TEST(Proposal, SharesOutOfRangeAreRefused) {
  for (const double share : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW((void)propose_threshold(std::vector<double>{1.0}, share), InvalidArgument) << share;
  }
}

}  // namespace
}  // namespace spectralclip

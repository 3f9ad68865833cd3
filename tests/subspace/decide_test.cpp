// SPDX-License-Identifier: Apache-2.0
// Decisions after a pass: each clause of the rule where it turns, and, for what must not be left above tau, against the
// largest eigenvalue of the two-by-two matrix that a found direction and an unseen one can form at worst.
#include "subspace/decide.h"
#include "constants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace spectralclip {
namespace {

constexpr double kHair = 1e-9;  // to either side of where a decision turns

// tau = 1; values and sines are kept here, as judge() only points to them.
struct Case {
  std::vector<double> sigma;
  std::vector<double> sine;
  std::vector<double> noise;
  Findings findings;
  SearchOptions options;

  Case(std::vector<double> sigma_, double all_sines, double unseen)
      : sigma(std::move(sigma_)), sine(sigma.size(), all_sines), noise(sigma.size()) {
    findings.unseen = {unseen, unseen};
    options.tau = 1;
    options.level = 1;
    options.tolerance = 0.9;  // errors are out of the way where they are not the matter
  }
  [[nodiscard]] Judgement run() const {
    Findings f = findings;
    f.count = static_cast<std::int64_t>(sigma.size());
    f.sigma = sigma.data();
    f.sine = sine.data();
    f.noise = noise.data();
    return judge(f, options);
  }
  [[nodiscard]] double goal() const { return options.tau * (1 + options.margin / 2); }
};

TEST(Judge, QuietIsSettled) {
  const Judgement j = Case({0.7, 0.5, 0.2}, 0.5, 0.3).run();
  EXPECT_TRUE(j.settled());
  EXPECT_EQ(j.above, 0);
  EXPECT_EQ(j.error, 0);
  EXPECT_FALSE(j.rank_full || j.beyond_rank || j.wide_range || j.rounded);
}

TEST(Judge, CountsWhatIsAboveLevel) {
  Case c({3, 1.01, 1.0009, 0.9}, 1e-6, 0.1);
  c.options.level = 1.001;
  EXPECT_EQ(c.run().above, 2);
  c.options.level = 1.0008;
  EXPECT_EQ(c.run().above, 3);
}

// Half of the margin is what the unseen may use up.
TEST(Judge, HiddenWhenTheUnseenMayExceedTheGoal) {
  for (const std::vector<double>& sigma : {std::vector<double>{0.5}, std::vector<double>{3, 0.5}, {}}) {
    Case c(sigma, 0, 0);
    c.findings.unseen.bound = c.goal() * (1 + kHair);
    EXPECT_TRUE(c.run().hidden);
    EXPECT_FALSE(c.run().settled());
    c.findings.unseen.bound = c.goal() * (1 - kHair);
    EXPECT_TRUE(c.run().settled());
  }
}

TEST(Judge, NothingIsHiddenInACompleteBasis) {
  Case c({3, 1.0001, 0.9999}, 1, 100);
  c.options.tolerance = 1e-12;
  c.findings.sigma_correction = 1;
  EXPECT_FALSE(c.run().settled()) << "the case must have something to hide";
  c.findings.complete = true;
  const Judgement j = c.run();
  EXPECT_TRUE(j.settled());
  EXPECT_EQ(j.error, 0);
  EXPECT_EQ(j.above, 2);
}

// sigma with its vector off by `sine` and an unseen direction of size h, coupled by sigma h sine.
double largest_together(double sigma, double h, double sine) {
  const double a = sigma * sigma, b = h * h, e = sigma * h * sine;
  return std::sqrt((a + b) / 2 + std::sqrt((a - b) * (a - b) / 4 + e * e));
}

// A value below tau is read again exactly when, together with what is unseen, it could exceed the goal.
TEST(Judge, BelowTauIsSharpenedExactlyWhenItCouldExceed) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  int sharpened = 0, total = 0;
  for (int i = 0; i < 20000; ++i) {
    const double sigma = 1 - std::pow(10, -4 * uniform(random));
    const double h = 0.97 * uniform(random);
    const double sine = std::pow(10, -3 * uniform(random));
    Case c({sigma}, sine, h);
    const double together = largest_together(sigma, h, sine);
    if (std::abs(together - c.goal()) < 1e-12) continue;
    ++total;
    const Judgement j = c.run();
    ASSERT_EQ(j.sharpen, together > c.goal() ? 1 : 0) << sigma << ' ' << h << ' ' << sine;
    ASSERT_FALSE(j.hidden);
    sharpened += j.sharpen > 0 ? 1 : 0;
  }
  EXPECT_GT(sharpened, total / 20);
  EXPECT_LT(sharpened, total / 2);
}

// A value near tau behind others: all down to it are read, none for those that are far below.
TEST(Judge, SharpeningReachesTheLastThatCouldExceed) {
  Case c({0.999, 0.9, 0.999, 0.5}, 0, 0.6);
  c.sine = {0, 1e-3, 0.5, 1};
  EXPECT_EQ(c.run().sharpen, 3);
  c.sine[2] = 0;
  EXPECT_EQ(c.run().sharpen, 0);
}

// When the unseen reaches the goal the bounds of the others stay finite and still tell close ones from far ones.
TEST(Judge, HiddenStillTellsWhatToSharpen) {
  Case c({0.999, 0.1, 0.05}, 1e-1, 50);
  EXPECT_TRUE(c.run().hidden);
  EXPECT_EQ(c.run().sharpen, 1);
  c.sigma = {0.1, 0.05};
  EXPECT_EQ(c.run().sharpen, 0);
}

// The lowered direction keeps tau and couples tau^2 / sigma h sine to the unseen: more than half a margin is too much.
TEST(Judge, LeftoversOfTheLoweredAreSharpened) {
  for (const double sigma : {1.1, 2.0, 30.0}) {
    constexpr double kUnseen = 0.5;
    Case c({sigma, 0.2}, 0, kUnseen);
    const double room = c.goal() * c.goal() - kUnseen * kUnseen;
    const double turning = std::sqrt(c.options.margin / 2 * room) * sigma / kUnseen;
    if (turning > 1) continue;
    c.sine[0] = turning * (1 + kHair);
    EXPECT_EQ(c.run().sharpen, 1) << sigma;
    c.sine[0] = turning * (1 - kHair);
    EXPECT_EQ(c.run().sharpen, 0) << sigma;
    // What is then left is within the margin: [[tau^2, e], [e, h^2]].
    const double e = kUnseen * c.sine[0] / sigma;
    const double left = (1 + kUnseen * kUnseen) / 2 + std::hypot((1 - kUnseen * kUnseen) / 2, e);
    EXPECT_LE(std::sqrt(left), 1 + c.options.margin);
  }
}

// Many lowered directions couple together.
TEST(Judge, LeftoversAddUp) {
  Case one({2}, 0.06, 0.5);
  EXPECT_EQ(one.run().sharpen, 0);
  Case many(std::vector<double>(8, 2.0), 0.06, 0.5);
  EXPECT_EQ(many.run().sharpen, 8);
}

TEST(Judge, ErrorFollowsSinesAndTheUnseen) {
  Case c({3, 0.2}, 1e-2, 0.3);
  const Judgement j = c.run();
  // excess h^2 sine / (s^2 - h^2) of the vector, twice, and s h^2 sine^2 / (s^2 - h^2) / 2 of the value, over the
  // excess.
  const double turned = 0.09 * 1e-2 / (9 - 0.09);
  const double shortened = 0.5 * 3 * 0.09 * 1e-4 / (9 - 0.09) / 2;
  EXPECT_GE(j.error, std::hypot(std::sqrt(2) * turned, shortened) * (1 - kHair));
  EXPECT_LE(j.error, 2 * turned) << "and hardly more while nothing is near";
  Case turned_more = c;
  turned_more.sine = {2e-2, 1e-2};
  EXPECT_GT(turned_more.run().error, 1.9 * j.error);
  Case unseen_more = c;
  unseen_more.findings.unseen = {0.6, 0.6};
  EXPECT_GT(unseen_more.run().error, 3.9 * j.error);
  Case safe = c;
  safe.findings.unseen.bound = 0.9;  // a bound's factor of safety is not part of an estimate
  EXPECT_EQ(safe.run().error, j.error);
  Case straight = c;
  straight.sine = {0, 0};
  EXPECT_EQ(straight.run().error, 0);
}

// Two values astride tau mix: the closer, the more.
TEST(Judge, ErrorSeesWhatIsCloseBelow) {
  const double alone = Case({1.1, 0.1}, 0.5, 0.5).run().error;
  const double close = Case({1.1, 0.99}, 0.5, 0.5).run().error;
  EXPECT_GT(close, 1.2 * alone);
}

TEST(Judge, TooLargeAnErrorSharpensThoseAboveAndThoseNear) {
  Case c({3, 0.8, 0.6}, 1e-2, 0.3);
  const double error = c.run().error;
  const double share = c.run().error_allowed - c.options.tolerance;  // that of the margin
  ASSERT_LT(share, error / 2);
  c.options.tolerance = error * (1 + 1e-6) - share;
  EXPECT_EQ(c.run().sharpen, 0);
  c.options.tolerance = error * (1 - 1e-6) - share;
  const Judgement j = c.run();
  EXPECT_GT(j.error, j.error_allowed);
  EXPECT_EQ(j.sharpen, 2) << "0.8 could be taken for what is above, 0.6 not";
}

// The error allowed is relative to ||D||, plus a share of the margin where D is small.
TEST(Judge, SmallRemovedPartsAreAllowedAShareOfTheMargin) {
  Case c({1.01, 0.2}, 1e-3, 0.3);
  c.options.tolerance = 1e-6;
  const double wide = c.run().error_allowed;
  EXPECT_GT(wide, 1e-4);
  EXPECT_LT(wide * 0.01, c.options.margin) << "far less than the promise: 3 margin tau";
  c.sigma[0] = 1e6;
  EXPECT_LT(c.run().error_allowed, 2e-6);
}

// Rounding that better columns would not have sends the search back; without better columns it is as it is.
TEST(Judge, RoundedOnlyWhereItCanImprove) {
  Case c({3, 0.2}, 0, 0.1);
  c.options.margin = 1e-9;
  c.options.tolerance = 1e-4;
  const double turning = 2 * 1e-4 * 2;  // noise / (2 tau) against tolerance times what is removed, 3 - 1
  c.findings.can_improve = true;
  c.noise[0] = 0.99 * turning;
  EXPECT_TRUE(c.run().settled());
  c.noise[0] = 1.01 * turning;
  EXPECT_TRUE(c.run().rounded);
  EXPECT_FALSE(c.run().settled());
  EXPECT_EQ(c.run().sharpen, 0);
  c.noise = {0, 1};
  EXPECT_TRUE(c.run().settled()) << "what is not lowered has no rounding to remove";
  c.noise[0] = 1.01 * turning;
  c.findings.can_improve = false;
  EXPECT_TRUE(c.run().settled());
  Case quiet({0.9, 0.2}, 0, 0.1);
  quiet.findings.can_improve = true;
  quiet.noise[0] = 1;
  EXPECT_FALSE(quiet.run().rounded) << "nothing is removed";
}

TEST(Judge, AFullRankLooksForNothingElse) {
  Case c({5, 3, 0.9999}, 1e-6, 100);
  EXPECT_TRUE(c.run().hidden);
  c.options.rank = 3;
  EXPECT_FALSE(c.run().rank_full);
  EXPECT_TRUE(c.run().hidden) << "there is room for one more";
  c.options.rank = 2;
  EXPECT_TRUE(c.run().rank_full);
  EXPECT_FALSE(c.run().beyond_rank);
  EXPECT_EQ(c.run().above, 2);
  EXPECT_TRUE(c.run().settled());
  c.options.rank = 1;
  EXPECT_TRUE(c.run().beyond_rank);
  EXPECT_EQ(c.run().above, 1);
  EXPECT_TRUE(c.run().settled());
}

TEST(Judge, AFullRankIsStillSharpenedToTheTolerance) {
  Case c({5, 3, 0.2}, 0.3, 2);
  c.options.rank = 2;
  EXPECT_TRUE(c.run().settled());
  c.options.tolerance = 1e-6;
  const Judgement j = c.run();
  EXPECT_FALSE(j.hidden);
  EXPECT_GE(j.sharpen, 2);
}

// What the lowered ones leave above tau is nothing that a larger rank would lower.
TEST(Judge, AFullRankStillLooksAtLeftovers) {
  Case c({5, 3, 0.2}, 0.3, 0.9);
  c.options.rank = 2;
  EXPECT_EQ(c.run().sharpen, 2);
  c.findings.unseen = {0.05, 0.05};
  EXPECT_TRUE(c.run().settled());
}

// Values under the floor are rounding of the largest: they are left for the look after the first clip.
TEST(Judge, AWideRangeLooksAtWhatRoundingLeaves) {
  Case c({1e6, 20, 3, 0.5}, 1e-3, 5);
  EXPECT_EQ(c.run().above, 3);
  EXPECT_TRUE(c.run().hidden);
  c.findings.floor = 10;
  const Judgement j = c.run();
  EXPECT_TRUE(j.wide_range);
  EXPECT_EQ(j.above, 2);
  EXPECT_FALSE(j.hidden) << "5 is below what can be told from rounding";
  EXPECT_TRUE(j.settled());
  c.findings.unseen = {20, 20};
  EXPECT_TRUE(c.run().hidden);
  c.findings.floor = 1;
  EXPECT_FALSE(c.run().wide_range) << "tau itself is at the floor, not below";
}

TEST(Judge, AnInfiniteTauOnlyMeasures) {
  Case c({5, 3, 1}, 0.5, 4);
  c.options.tau = c.options.level = kInfinity;
  c.options.sigma_tolerance = 1e-2;
  c.options.tolerance = 1e-9;
  c.findings.sigma_correction = 0.9e-2;
  Judgement j = c.run();
  EXPECT_TRUE(j.settled());
  EXPECT_EQ(j.above, 0);
  EXPECT_EQ(j.error, 0);
  EXPECT_FALSE(j.wide_range || j.refine);
  c.findings.sigma_correction = 1.1e-2;
  j = c.run();
  EXPECT_TRUE(j.refine);
  EXPECT_TRUE(j.settled()) << "what may be lowered does not wait for sigma_max";
  EXPECT_FALSE(j.hidden);
  c.findings.complete = true;
  EXPECT_FALSE(c.run().refine);
  EXPECT_TRUE(c.run().settled());
}

// Below tau the largest value is what the threshold will learn from; above, it is lowered to its own accuracy.
TEST(Judge, SigmaMaxIsLookedAtWhileNothingIsAbove) {
  Case c({0.8, 0.3}, 1e-3, 0.1);
  c.findings.sigma_correction = 0.5;
  EXPECT_TRUE(c.run().refine);
  c.findings.sigma_correction = 0;
  EXPECT_FALSE(c.run().refine);
  c.sigma[0] = 1.5;
  c.findings.sigma_correction = 0.5;
  EXPECT_FALSE(c.run().refine);
}

TEST(Judge, NeverAsksForMoreThanWasFound) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> sigma(static_cast<std::size_t>(1 + random() % 12));
    for (double& s : sigma) s = std::pow(10, 2 * uniform(random) - 1);
    std::sort(sigma.rbegin(), sigma.rend());
    Case c(sigma, uniform(random), 3 * uniform(random));
    c.options.tolerance = 1e-8;
    c.options.rank = static_cast<std::int64_t>(random() % 4);
    const Judgement j = c.run();
    ASSERT_LE(j.sharpen, static_cast<std::int64_t>(sigma.size()));
    ASSERT_LE(j.above, c.options.rank > 0 ? c.options.rank : static_cast<std::int64_t>(sigma.size()));
    ASSERT_EQ(j.settled(), !j.hidden && !j.rounded && j.sharpen == 0);
    ASSERT_TRUE(std::isfinite(j.error));
  }
}

}  // namespace
}  // namespace spectralclip

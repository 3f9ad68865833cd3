// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/corruption.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::data {
namespace {

TEST(Corruption, ReplacesTheShareThatWasAskedForInWholeBursts) {
  constexpr std::int64_t kItems = 200000;
  for (const std::int64_t burst : {1, 7, 100}) {
    for (const double share : {0.05, 0.5}) {
      const Corruption dirt{share, burst, 11};
      std::int64_t count = 0, changes = 0;
      for (std::int64_t i = 0; i < kItems; ++i) {
        const bool now = is_corrupt(dirt, i);
        count += now ? 1 : 0;
        if (i > 0 && now != is_corrupt(dirt, i - 1)) {
          ++changes;
          EXPECT_EQ(i % burst, 0) << "a burst was broken";
        }
      }
      // Bursts are independent: four standard deviations of their number.
      const double bursts = static_cast<double>(kItems) / static_cast<double>(burst);
      const double slack = 4 * std::sqrt(share * (1 - share) / bursts);
      EXPECT_NEAR(static_cast<double>(count) / kItems, share, slack) << "burst " << burst;
      EXPECT_GT(changes, 0);
    }
  }
}

TEST(Corruption, DependsOnSeedAndIndexAloneAndAnswersForAnyPart) {
  const Corruption dirt{0.3, 3, 5};
  std::vector<std::int64_t> whole(1000, -1);
  const std::int64_t replaced = corrupt(dirt, -200, whole, 10);
  EXPECT_GT(replaced, 0);
  EXPECT_EQ(replaced, std::ranges::count_if(whole, [](std::int64_t value) { return value >= 0; }));
  for (std::int64_t begin = 0; begin < 1000; begin += 13) {
    std::vector<std::int64_t> part(static_cast<std::size_t>(std::min<std::int64_t>(13, 1000 - begin)), -1);
    corrupt(dirt, begin - 200, part, 10);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
  std::vector<std::int64_t> other(1000, -1);
  corrupt({0.3, 3, 6}, -200, other, 10);
  EXPECT_NE(other, whole) << "the seed does nothing";
}

TEST(Corruption, ValuesAreUniformAndIndependentOfTheBursts) {
  const Corruption dirt{1, 1000, 2};
  std::vector<std::int64_t> values(100000, -1), counts(10, 0);
  EXPECT_EQ(corrupt(dirt, 0, values, 10), 100000);
  for (const std::int64_t value : values) ++counts[static_cast<std::size_t>(value)];
  double chi_squared = 0;
  for (const std::int64_t count : counts) chi_squared += std::pow(static_cast<double>(count) - 1e4, 2) / 1e4;
  EXPECT_LT(chi_squared, 33.7) << "nine degrees of freedom: exceeded once in 10,000";  // the seed is fixed
}

TEST(Corruption, NothingAndEverything) {
  std::vector<std::int64_t> values(100, -1);
  EXPECT_EQ(corrupt({}, 0, values, 10), 0);
  EXPECT_EQ(values, std::vector<std::int64_t>(100, -1));
  EXPECT_EQ(corrupt({.share = 1, .burst = 3}, 0, values, 10), 100);
  for (const Corruption& wrong :
       {Corruption{-0.1, 1, 0}, Corruption{1.1, 1, 0}, Corruption{NAN, 1, 0}, Corruption{0.5, 0, 0}})
    EXPECT_THROW((void)is_corrupt(wrong, 0), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::lab::data

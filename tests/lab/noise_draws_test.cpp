// SPDX-License-Identifier: Apache-2.0
// Draws: an address is all that decides the numbers, and the numbers have the distribution they are named after.
// Statistical limits are five standard errors (one false alarm in two million), seeds are fixed.
#include "noise/draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "random/name_hash.h"
#include "random/uniform.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

constexpr int kMany = 200000;

std::vector<std::uint32_t> words_of(Draws draws, int count = 64) {
  std::vector<std::uint32_t> words;
  for (int i = 0; i < count; ++i) words.push_back(draws.word());
  return words;
}

template <class Draw>
std::vector<double> sample(Draw&& draw, int count = kMany) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(draw());
  return values;
}

double mean_power(const std::vector<double>& values, int power) {
  double sum = 0;
  for (const double x : values) sum += std::pow(x, power);
  return sum / static_cast<double>(values.size());
}

// Largest distance between the empirical and the true distribution function.
double kolmogorov_distance(std::vector<double> values, const std::function<double(double)>& distribution) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = distribution(values[i]), below = static_cast<double>(i) / n;
    distance = std::max({distance, std::abs(p - below), std::abs(p - below - 1 / n)});
  }
  return distance;
}
const double kKolmogorovLimit = 2.2 / std::sqrt(kMany);  // exceeded with probability 2 exp(-2 * 2.2^2) = 1.2e-4

double chi_square(const std::map<std::int64_t, int>& counts, double cells, double draws) {
  double sum = (cells - static_cast<double>(counts.size())) * draws / cells;
  for (const auto& [value, count] : counts) sum += std::pow(count - draws / cells, 2) / (draws / cells);
  return sum;
}

TEST(Draws, EqualAddressEqualBits) {
  EXPECT_EQ(words_of(Draws(1, "noise", 7, 3)), words_of(Draws(1, "noise", 7, 3)));
  Draws a(5, "noise"), b(5, "noise");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.normal(), b.normal());
}

TEST(Draws, EveryPartOfTheAddressMatters) {
  const std::vector<std::vector<std::uint32_t>> streams = {
      words_of(Draws(1, "noise", 7, 3)),
      words_of(Draws(2, "noise", 7, 3)),
      words_of(Draws(1, "order", 7, 3)),
      words_of(Draws(1, "noise", 8, 3)),
      words_of(Draws(1, "noise", 7, 4)),
      words_of(Draws(1, "noise", 3, 7)),
      words_of(Draws(1, "noise", std::int64_t{7} + (std::int64_t{1} << 32), 3)),
      words_of(Draws(1, "noise", 7, std::int64_t{3} + (std::int64_t{1} << 32)))};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      int equal = 0;  // 64 pairs of 32-bit words: even one is a wonder
      for (std::size_t k = 0; k < streams[i].size(); ++k) equal += streams[i][k] == streams[j][k] ? 1 : 0;
      EXPECT_LE(equal, 1) << i << " and " << j;
    }
  }
}

// Pins the addresses: a run resumed by a later version must go on with the same numbers.
TEST(Draws, WordsArePhiloxOfTheAddress) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t family = mixed_bits(11 + kGolden * name_hash("noise"));
  const std::uint64_t key = mixed_bits(family + kGolden * (3 + 1));
  const auto words = words_of(Draws(11, "noise", 7, 3), 12);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const auto expected =
        philox4x32({block, 0, 7, 0}, {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(words[4 * block + i], expected[i]);
  }
}

TEST(Draws, UniformIsUniformAndOpen) {
  Draws draws(3, "uniform");
  const auto values = sample([&] { return draws.uniform(); });
  EXPECT_GT(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  EXPECT_LT(kolmogorov_distance(values, [](double x) { return x; }), kKolmogorovLimit);
}

TEST(Draws, NormalIsNormal) {
  Draws draws(3, "normal");
  const auto values = sample([&] { return draws.normal(); });
  EXPECT_LT(kolmogorov_distance(values, [](double x) { return std::erfc(-x / std::sqrt(2)) / 2; }), kKolmogorovLimit);
  // Variances of x, x^2, x^3, x^4: 1, 2, 15, 96.
  EXPECT_NEAR(mean_power(values, 1), 0, 5 * std::sqrt(1.0 / kMany));
  EXPECT_NEAR(mean_power(values, 2), 1, 5 * std::sqrt(2.0 / kMany));
  EXPECT_NEAR(mean_power(values, 3), 0, 5 * std::sqrt(15.0 / kMany));
  EXPECT_NEAR(mean_power(values, 4), 3, 5 * std::sqrt(96.0 / kMany));
}

// Box-Muller makes them in pairs: neither they nor their squares may be correlated.
TEST(Draws, NeighbouringNormalsAreIndependent) {
  Draws draws(4, "normal");
  double products = 0, squares = 0;
  for (int i = 0; i < kMany; ++i) {
    const double a = draws.normal(), b = draws.normal();
    products += a * b / kMany;
    squares += (a * a - 1) * (b * b - 1) / kMany;
  }
  EXPECT_NEAR(products, 0, 5 * std::sqrt(1.0 / kMany));
  EXPECT_NEAR(squares, 0, 5 * std::sqrt(4.0 / kMany));
}

TEST(Draws, BelowIsEvenOverItsRange) {
  Draws draws(3, "below");
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < kMany; ++i) ++counts[draws.below(10)];
  EXPECT_EQ(counts.begin()->first, 0);
  EXPECT_EQ(counts.rbegin()->first, 9);
  EXPECT_LT(chi_square(counts, 10, kMany), 9 + 5 * std::sqrt(18.0));
  EXPECT_EQ(draws.below(1), 0);
}

// Without rejection, 2^32 words on 3 * 2^30 values would give every third value twice the weight (1/2, 1/4, 1/4).
TEST(Draws, BelowIsUnbiasedForLargeRanges) {
  constexpr std::int64_t kRange = std::int64_t{3} << 30;
  Draws draws(3, "below");
  std::map<std::int64_t, int> thirds, remainders;
  for (int i = 0; i < kMany; ++i) {
    const std::int64_t value = draws.below(kRange);
    ++thirds[value / (kRange / 3)];
    ++remainders[value % 3];
  }
  EXPECT_LT(chi_square(thirds, 3, kMany), 2 + 5 * 2.0);
  EXPECT_LT(chi_square(remainders, 3, kMany), 2 + 5 * 2.0);
}

TEST(Draws, BelowRefusesWhatItCannotCover) {
  Draws draws(3, "below");
  EXPECT_THROW((void)draws.below(0), InvalidArgument);
  EXPECT_THROW((void)draws.below(-1), InvalidArgument);
  EXPECT_THROW((void)draws.below((std::int64_t{1} << 32) + 1), InvalidArgument);
  EXPECT_GE(draws.below(std::int64_t{1} << 32), 0);
}

TEST(Draws, ParetoHasItsTailAndBothSigns) {
  constexpr double kScale = 2, kAlpha = 1.1;
  Draws draws(3, "pareto");
  const auto values = sample([&] { return draws.two_sided_pareto(kScale, kAlpha); });
  double logs = 0, positive = 0;
  for (const double x : values) {
    EXPECT_GE(std::abs(x), kScale * (1 - 1e-12));
    logs += std::log(std::abs(x) / kScale) / kMany;  // exponential of mean 1 / alpha
    positive += x > 0 ? 1.0 / kMany : 0;
  }
  EXPECT_NEAR(logs, 1 / kAlpha, 5 / kAlpha / std::sqrt(kMany));
  EXPECT_NEAR(positive, 0.5, 5 * 0.5 / std::sqrt(kMany));
  for (const double t : {3.0, 10.0, 100.0, 1000.0}) {
    const double p = std::pow(kScale / t, kAlpha);
    const auto beyond =
        static_cast<double>(std::count_if(values.begin(), values.end(), [&](double x) { return std::abs(x) > t; }));
    EXPECT_NEAR(beyond / kMany, p, 5 * std::sqrt(p * (1 - p) / kMany)) << t;
  }
}

TEST(Draws, FillsAreTheSameNumbersInBothPrecisions) {
  std::vector<float> single(101);
  std::vector<double> precise(101);
  Draws a(9, "fill"), b(9, "fill"), c(9, "fill");
  a.fill_normal(std::span(single));
  b.fill_normal(std::span(precise));
  for (std::size_t i = 0; i < precise.size(); ++i) {
    EXPECT_EQ(precise[i], c.normal());
    EXPECT_EQ(single[i], static_cast<float>(precise[i]));
  }
}

TEST(Draws, PermutationIsOne) {
  for (const std::size_t n : {0U, 1U, 2U, 1000U}) {
    std::vector<std::int64_t> order(n);
    Draws(1, "order", 5).fill_permutation(order);
    EXPECT_EQ(std::is_sorted(order.begin(), order.end()), n < 1000 && (n < 2 || order[0] == 0));
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(order[i], static_cast<std::int64_t>(i));
  }
}

// The common mistake, swapping with any place instead of one that is still open, makes some orders 1.8 times as likely.
TEST(Draws, AllPermutationsAreAsLikely) {
  constexpr int kDraws = 48000;
  std::map<std::int64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<std::int64_t> order(4);
    Draws(1, "order", i).fill_permutation(order);
    ++counts[order[0] + 10 * order[1] + 100 * order[2] + 1000 * order[3]];
  }
  EXPECT_EQ(counts.size(), 24U);
  EXPECT_LT(chi_square(counts, 24, kDraws), 23 + 5 * std::sqrt(46.0));
}

}  // namespace
}  // namespace spectralclip::lab

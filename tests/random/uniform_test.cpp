// SPDX-License-Identifier: Apache-2.0
// The counter-based generator: published answers of Philox, every part of the address matters, and the columns have the
// distribution that the certificate rests on.
#include "random/uniform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "random/name_hash.h"

namespace spectralclip {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// kat_vectors of Random123 (Salmon et al., SC 2011), philox4x32 with 10 rounds.
TEST(Philox, PublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

template <class T>
std::vector<T> column_of(const RandomStream& stream, std::uint32_t column, std::int64_t n) {
  std::vector<T> out(static_cast<std::size_t>(n));
  fill_uniform(stream, column, out.data(), n);
  return out;
}

constexpr RandomStream kStream{11, 22, 33, 1};
constexpr double kSqrt3 = 1.7320508075688772;

template <class T>
class UniformTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(UniformTest, Scalars);

// A shorter column is the beginning of a longer one, so shards and paddings do not change the bits.
TYPED_TEST(UniformTest, PrefixesAgreeAndNothingMoreIsWritten) {
  const auto whole = column_of<TypeParam>(kStream, 3, 1000);
  for (const std::int64_t n : {0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 127, 128, 129, 640, 999}) {
    std::vector<TypeParam> part(static_cast<std::size_t>(n) + 1, TypeParam{99});
    fill_uniform(kStream, 3, part.data(), n);
    EXPECT_TRUE(std::equal(part.begin(), part.end() - 1, whole.begin())) << n;
    EXPECT_EQ(part.back(), TypeParam{99}) << n;
  }
}

// The values are the address's, for ever: a checkpoint of today must find the same columns tomorrow.
TEST(Uniform, EntriesAreWordsOfPhilox) {
  const std::uint64_t key = mixed_bits(kStream.seed + 0x9E3779B97F4A7C15U * mixed_bits(kStream.matrix_id + 1));
  const auto column = column_of<double>(kStream, 3, 256);
  for (std::size_t i = 0; i < column.size(); ++i) {
    // Entries come in groups of 64 from 16 counters: first all their first words, then all their second ones, …
    const auto counter = static_cast<std::uint32_t>(i / 64 * 16 + i % 16);
    const Counter words = philox4x32({counter, 3 | (1U << 16), 33, 0},
                                     {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
    const auto word = static_cast<std::int32_t>(words[i % 64 / 16] | 1U);
    EXPECT_EQ(column[i], static_cast<double>(word) * (kSqrt3 * 0x1p-31)) << i;
  }
}

TYPED_TEST(UniformTest, EveryPartOfTheAddressMatters) {
  const auto base = column_of<TypeParam>(kStream, 3, 64);
  std::vector<RandomStream> others(6, kStream);
  others[0].seed += 1;
  others[1].matrix_id += 1;
  others[2].step += 1;
  others[3].pass += 1;
  others[4].seed += std::uint64_t{1} << 40;
  others[5].step += std::uint64_t{1} << 40;
  std::vector<std::vector<TypeParam>> columns{base, column_of<TypeParam>(kStream, 4, 64)};
  for (const auto& stream : others) columns.push_back(column_of<TypeParam>(stream, 3, 64));
  for (std::size_t a = 0; a < columns.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < 64; ++i) equal += columns[a][i] == columns[b][i] ? 1 : 0;
      EXPECT_EQ(equal, 0) << a << " and " << b;
    }
  }
}

// Seed and name are mixed before they meet, so that (seed + 1, id) is not (seed, id + 1).
TEST(Uniform, SeedAndNameDoNotTradePlaces) {
  EXPECT_NE(column_of<double>({1, 2, 0, 0}, 0, 4), column_of<double>({2, 1, 0, 0}, 0, 4));
}

// Mean 0, variance 1, no entry zero, none outside (-sqrt 3, sqrt 3); five standard deviations of each estimate.
TYPED_TEST(UniformTest, MomentsAndRange) {
  constexpr std::int64_t kCount = 1 << 17;
  const auto x = column_of<TypeParam>(kStream, 0, kCount);
  double sum = 0, squares = 0, lagged = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x[i]);
    ASSERT_NE(value, 0);
    ASSERT_LE(std::abs(value), kSqrt3 * (1 + static_cast<double>(std::numeric_limits<TypeParam>::epsilon())));
    sum += value;
    squares += value * value;
    if (i > 0) lagged += value * static_cast<double>(x[i - 1]);
  }
  const double n = static_cast<double>(kCount);
  EXPECT_LE(std::abs(sum / n), 5 / std::sqrt(n));                    // variance of x is 1
  EXPECT_LE(std::abs(squares / n - 1), 5 * std::sqrt(4.0 / 5 / n));  // of x^2: 9/5 - 1
  EXPECT_LE(std::abs(lagged / n), 5 / std::sqrt(n));
}

// Sixteen equal cells: chi squared with 15 degrees of freedom, mean 15, variance 30.
TEST(Uniform, CellsAreFilledEvenly) {
  constexpr std::int64_t kCount = 1 << 17;
  std::array<double, 16> cells{};
  for (const double x : column_of<double>(kStream, 1, kCount)) {
    cells[static_cast<std::size_t>((x / kSqrt3 + 1) * 8)] += 1;
  }
  double chi_squared = 0;
  const double expected = static_cast<double>(kCount) / 16;
  for (const double count : cells) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LE(chi_squared, 15 + 5 * std::sqrt(30.0));
}

TEST(Uniform, ColumnsAreUncorrelated) {
  constexpr std::int64_t kCount = 1 << 15;
  const auto x = column_of<double>(kStream, 0, kCount);
  RandomStream next_pass = kStream;
  ++next_pass.pass;
  for (const auto& y : {column_of<double>(kStream, 1, kCount), column_of<double>(next_pass, 0, kCount)}) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    EXPECT_LE(std::abs(sum / kCount), 5 / std::sqrt(static_cast<double>(kCount)));
  }
}

TEST(Uniform, FloatIsDoubleRounded) {
  const auto narrow = column_of<float>(kStream, 5, 4096);
  const auto wide = column_of<double>(kStream, 5, 4096);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    // three roundings: the integer, the constant, the product
    const double limit = 1.5 * static_cast<double>(std::numeric_limits<float>::epsilon()) * std::abs(wide[i]);
    EXPECT_LE(std::abs(static_cast<double>(narrow[i]) - wide[i]), limit) << i;
  }
}

// FNV-1a's and SplitMix64's published values: the hash is part of every checkpointed run.
TEST(NameHash, PublishedAnswers) {
  EXPECT_EQ(mixed_bits(0x9e3779b97f4a7c15ULL), 0xe220a8397b1dcdafULL);  // first output of SplitMix64 from seed 0
  EXPECT_EQ(name_hash(""), mixed_bits(0xcbf29ce484222325ULL));
  EXPECT_EQ(name_hash("a"), mixed_bits(0xaf63dc4c8601ec8cULL));
  EXPECT_EQ(name_hash("foobar"), mixed_bits(0x85944171f73967e8ULL));
}

TEST(NameHash, MatricesOfAParameterAreApart) {
  EXPECT_NE(matrix_id_of("w", 0), matrix_id_of("w", 1));
  EXPECT_NE(matrix_id_of("w", 0), matrix_id_of("v", 0));
  EXPECT_EQ(matrix_id_of("w", 3), matrix_id_of("w", 3));
}

}  // namespace
}  // namespace spectralclip

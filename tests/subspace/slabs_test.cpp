// SPDX-License-Identifier: Apache-2.0
// How a matrix is cut into slabs, that a pass over slabs gives equal bits on any executor, and that passes over parts
// of the rows, empty ones among them, add up.
#include "subspace/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/fused_pass.h"
#include "subspace/pass.h"

namespace spectralclip {
namespace {

TEST(Slabs, CoverAllRowsOnceInWholeGroups) {
  for (const std::int64_t rows : {1, 3, 4, 5, 33, 768, 1000, 2304, 3072, 4096, 50257, 1000003}) {
    for (const std::int64_t cols : {1, 7, 768, 3072, 4096, 2000000}) {
      for (const std::int64_t share :
           {std::int64_t{1}, std::int64_t{1} << 15, std::int64_t{1} << 21, std::int64_t{1} << 26}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", " << share << " bytes a share");
        const Slabs slabs = make_slabs(rows, cols, share);
        EXPECT_EQ(slabs.height % 4, 0);
        EXPECT_GE(slabs.count, 1);
        EXPECT_LE(slabs.count, 32);
        std::int64_t next = 0;
        for (std::int64_t i = 0; i < slabs.count; ++i) {
          EXPECT_EQ(slabs.begin(i), next);
          EXPECT_GE(slabs.size(i), 1);
          next += slabs.size(i);
        }
        EXPECT_EQ(next, rows);
        EXPECT_TRUE(slabs.count == 1 || slabs.count * share <= std::int64_t{8} << 20) << "room for the shares";
      }
    }
  }
}

TEST(Slabs, LargeMatricesAreCutSmallOnesAreNot) {
  EXPECT_EQ(make_slabs(64, 64, 1 << 12).count, 1);
  EXPECT_EQ(make_slabs(4096, 4096, 8 * 4096 * 4).count, 16);
  EXPECT_EQ(make_slabs(4096, 4096, std::int64_t{8} << 20).count, 1) << "no room for a second share";
}

TEST(Slabs, AMatrixWithoutRowsHasNone) {
  const Slabs slabs = make_slabs(0, 768, 1 << 12);
  EXPECT_EQ(slabs.rows, 0);
  EXPECT_EQ(slabs.count, 0);
}

constexpr std::int64_t kRows = 4099, kCols = 1030, kWidth = 4;

// Everything a pass and an update give, on one executor.
template <class T>
struct Outcome {
  std::vector<T> Zt;
  std::vector<double> sums;
  std::vector<T> G;
  double updated_norm_squared = 0;

  bool operator==(const Outcome&) const = default;
};

template <class T>
struct Inputs {
  std::vector<T> G;
  Arena memory;  // rows of Vt and Zt are aligned
  T* Vt;
  T* Zt;

  Inputs() : G(static_cast<std::size_t>(kRows * kCols)) {
    const std::int64_t entries = kWidth * kernels::padded(kCols);
    memory.reserve(2 * Arena::padded_bytes<T>(entries));
    Vt = memory.take<T>(entries);
    Zt = memory.take<T>(entries);
    std::mt19937_64 random(5);
    std::normal_distribution<T> normal;
    for (T& x : G) x = normal(random);
    std::fill(Vt, Vt + entries, T{0});
    for (std::int64_t c = 0; c < kWidth; ++c) {
      for (std::int64_t j = 0; j < kCols; ++j) Vt[c * kernels::padded(kCols) + j] = normal(random) / T{32};
    }
  }
  [[nodiscard]] AnyMatrix rows(std::int64_t first, std::int64_t count) {
    return {count > 0 ? G.data() + first * kCols : nullptr, kScalarTypeOf<T>, count, kCols, kCols};
  }
  // One pass over these rows. What was there before is no part of a sum.
  [[nodiscard]] Outcome<T> pass(const AnyMatrix& part, Executor& executor = serial_executor()) {
    Outcome<T> o;
    const std::int64_t entries = kWidth * kernels::padded(kCols);
    std::fill(Zt, Zt + entries, T(7));
    o.sums.assign(static_cast<std::size_t>(PassResult<T>::sums_of(kWidth)), 7.0);
    Arena scratch;
    run_pass(part, PassColumns<T>{Vt, kWidth}, PassResult<T>{Zt, o.sums.data(), kWidth}, scratch, executor);
    o.Zt.assign(Zt, Zt + entries);
    return o;
  }
};

constexpr double kCoefficients[] = {0.5, 0.25, 0.125};

template <class T>
Outcome<T> pass_and_update(Executor& executor) {
  Inputs<T> in;
  EXPECT_GT(make_slabs(kRows, kCols, kWidth * kernels::padded(kCols) * std::int64_t{sizeof(T)}).count, 2)
      << "the case must have slabs";
  Outcome<T> o = in.pass(in.rows(0, kRows), executor);
  T coefficient[3];
  std::copy(kCoefficients, kCoefficients + 3, coefficient);
  Arena scratch;
  o.updated_norm_squared = run_update(in.rows(0, kRows), in.Vt, std::int64_t{3}, coefficient, scratch, executor);
  o.G = in.G;
  return o;
}

template <class T>
class SlabPassTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(SlabPassTest, Scalars);

TYPED_TEST(SlabPassTest, EqualBitsOnAnyNumberOfThreads) {
  const Outcome<TypeParam> expected = pass_and_update<TypeParam>(serial_executor());
  EXPECT_NE(expected.sums[0], expected.updated_norm_squared);
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(pass_and_update<TypeParam>(pool) == expected) << threads << " threads";
  }
}

// ||G||^2 and ||G v||^2 column by column from the definition, and the norm that an update by those columns leaves.
TYPED_TEST(SlabPassTest, SumsAreThoseOfTheDefinition) {
  using T = TypeParam;
  const Inputs<T> in;
  const Outcome<T> o = pass_and_update<T>(serial_executor());
  const auto v = [&](std::int64_t c, std::int64_t j) {
    return static_cast<double>(in.Vt[c * kernels::padded(kCols) + j]);
  };
  long double squares[kWidth] = {};
  long double norm_squared = 0, updated = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const T* row = in.G.data() + i * kCols;
    long double w[kWidth] = {};
    for (std::int64_t c = 0; c < kWidth; ++c) {
      for (std::int64_t j = 0; j < kCols; ++j) w[c] += static_cast<double>(row[j]) * v(c, j);
      squares[c] += w[c] * w[c];
    }
    for (std::int64_t j = 0; j < kCols; ++j) {
      const auto x = static_cast<double>(row[j]);
      long double y = x;
      for (std::int64_t c = 0; c < 3; ++c) y -= w[c] * kCoefficients[c] * v(c, j);
      norm_squared += x * x;
      updated += y * y;
    }
  }
  const double eps = 64 * static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto expect = [&](double found, long double truth) {
    EXPECT_NEAR(found, static_cast<double>(truth), eps * static_cast<double>(truth));
  };
  expect(o.sums[0], norm_squared);
  expect(o.updated_norm_squared, updated);
  for (std::size_t c = 0; c < kWidth; ++c) expect(o.sums[1 + c * (kWidth + 1)], squares[c]);
}

// Rows over several holders: their results, added up, are those of the whole, whoever holds how many.
TYPED_TEST(SlabPassTest, PartsOfTheRowsAddUp) {
  using T = TypeParam;
  Inputs<T> in;
  const Outcome<T> whole = in.pass(in.rows(0, kRows));
  std::vector<double> Zt(whole.Zt.size(), 0.0);
  std::vector<double> sums(whole.sums.size(), 0.0);
  std::int64_t first = 0;
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{0}, std::int64_t{2500}, kRows - 2501}) {
    const Outcome<T> part = in.pass(in.rows(first, rows));
    for (std::size_t i = 0; i < Zt.size(); ++i) Zt[i] += static_cast<double>(part.Zt[i]);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.sums[i];
    first += rows;
  }
  ASSERT_EQ(first, kRows);
  const double eps = 16 * static_cast<double>(std::numeric_limits<T>::epsilon());
  double size = 0, error = 0;
  for (std::size_t i = 0; i < Zt.size(); ++i) {
    size += Zt[i] * Zt[i];
    error += std::pow(Zt[i] - static_cast<double>(whole.Zt[i]), 2);
  }
  EXPECT_LE(std::sqrt(error), eps * std::sqrt(size));
  EXPECT_GT(size, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], whole.sums[i], eps * sums[0]) << i;
}

TYPED_TEST(SlabPassTest, WithoutRowsEverythingIsZero) {
  using T = TypeParam;
  Inputs<T> in;
  ThreadPool pool(2);
  for (Executor* executor : {&serial_executor(), static_cast<Executor*>(&pool)}) {
    const Outcome<T> o = in.pass(in.rows(0, 0), *executor);
    EXPECT_TRUE(std::all_of(o.Zt.begin(), o.Zt.end(), [](T x) { return x == 0; }));
    EXPECT_TRUE(std::all_of(o.sums.begin(), o.sums.end(), [](double x) { return x == 0; }));
    const T coefficient[] = {T(0.5)};
    Arena scratch;
    EXPECT_EQ(run_update(in.rows(0, 0), in.Vt, std::int64_t{1}, coefficient, scratch, *executor), 0);
  }
}

// One entry that is not finite, anywhere, shows in the sum that decides.
TYPED_TEST(SlabPassTest, NotFiniteEntriesReachTheSums) {
  using T = TypeParam;
  Inputs<T> in;
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    for (const std::int64_t at : {std::int64_t{0}, 3000 * kCols + 17, kRows * kCols - 1}) {
      T& entry = in.G[static_cast<std::size_t>(at)];
      const T before = std::exchange(entry, bad);
      EXPECT_FALSE(std::isfinite(in.pass(in.rows(0, kRows)).sums[0])) << at;
      entry = before;
    }
  }
}

}  // namespace
}  // namespace spectralclip

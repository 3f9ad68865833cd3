// SPDX-License-Identifier: Apache-2.0
// Sum of squares, scaling, largest magnitude and addition of runs, on every instruction set, against the twins.
#include "kernels/norm.h"

#include <gtest/gtest.h>

#include "kernels/every_target.h"
#include "kernels/guarded.h"
#include "kernels/reference.h"
#include "kernels/small_products.h"
#include "spectralclip/error.h"

namespace spectralclip::kernels {
namespace {

template <class T>
class NormTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(NormTest, Scalars);

// Around every vector width, eight vectors and two more, and the run of 4096.
constexpr std::int64_t kRuns[] = {0,  1,  2,  3,  4,  5,   7,   8,   9,   15,   16,   17,   18,   31,   33,
                                  34, 63, 65, 66, 98, 127, 129, 130, 257, 1000, 4095, 4096, 4097, 8195, 12301};

template <class T>
void fill_run(Guarded<T>& x, Entries entries) {
  Source<T> source(entries, 5);
  std::generate_n(x.data(), x.size(), [&] { return source(); });
}

TYPED_TEST(NormTest, SumOfSquares) {
  for_each_target([] {
    for (const std::int64_t n : kRuns) {
      for (const std::int64_t offset : {0, 1}) {
        Guarded<TypeParam> x(n, TypeParam{0}, offset);
        fill_run(x, Entries::integers);
        ASSERT_EQ(sum_of_squares(x.data(), n), reference::sum_of_squares(x.data(), n)) << n;
        fill_run(x, Entries::reals);
        const double expected = reference::sum_of_squares(x.data(), n);
        // Only runs of 4096 are added in T, so the bound stops growing there; the runs are added in double.
        const double terms = 2.0 * static_cast<double>(std::min<std::int64_t>(n, 4096)) + 2;
        const double rounding = static_cast<double>(n / 4096) * std::numeric_limits<double>::epsilon();
        const double limit = terms * static_cast<double>(std::numeric_limits<TypeParam>::epsilon()) + rounding;
        ASSERT_LE(std::abs(sum_of_squares(x.data(), n) - expected), limit * expected) << n;
      }
    }
  });
}

TYPED_TEST(NormTest, SumOfSquaresSeesEveryNonFiniteEntry) {
  for_each_target([] {
    for (const std::int64_t n : {1, 7, 8, 66, 131, 4097}) {
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        for (const auto bad : {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity(),
                               -std::numeric_limits<TypeParam>::infinity()}) {
          Guarded<TypeParam> x(n, TypeParam{1}, 1);
          x[at] = bad;
          ASSERT_FALSE(std::isfinite(sum_of_squares(x.data(), n))) << n << " at " << at;
        }
      }
    }
  });
}

TYPED_TEST(NormTest, MaxAbs) {
  for_each_target([] {
    for (const std::int64_t n : kRuns) {
      Guarded<TypeParam> x(n, TypeParam{0}, 1);
      fill_run(x, Entries::reals);
      ASSERT_EQ(max_abs(x.data(), n), reference::max_abs(x.data(), n)) << n;
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        if (n == 0) break;
        const TypeParam kept = x[at];
        x[at] = -1000;
        ASSERT_EQ(max_abs(x.data(), n), 1000) << n << " at " << at;
        x[at] = std::numeric_limits<TypeParam>::quiet_NaN();
        ASSERT_TRUE(std::isnan(max_abs(x.data(), n))) << n << " at " << at;
        x[at] = kept;
      }
    }
  });
}

// Squares of these underflow or overflow; their magnitudes do not.
TYPED_TEST(NormTest, MaxAbsOfExtremes) {
  for_each_target([] {
    for (const auto extreme : {std::numeric_limits<TypeParam>::denorm_min(), std::numeric_limits<TypeParam>::max()}) {
      Guarded<TypeParam> x(37);
      x[20] = -extreme;
      EXPECT_EQ(max_abs(x.data(), 37), static_cast<double>(extreme));
    }
  });
}

TYPED_TEST(NormTest, ScaleIsOneRoundingPerEntry) {
  for_each_target([] {
    for (const std::int64_t n : kRuns) {
      for (const auto factor : {TypeParam{0}, TypeParam(0.3), TypeParam(-7)}) {
        Guarded<TypeParam> x(n, TypeParam{0}, 1);
        Guarded<TypeParam> twin(n, TypeParam{0}, 1);
        fill_run(x, Entries::reals);
        fill_run(twin, Entries::reals);
        scale_inplace(x.data(), n, factor);
        reference::scale_inplace(twin.data(), n, factor);
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], twin[i]) << n << " at " << i;
        ASSERT_TRUE(x.intact()) << n;
      }
    }
  });
}

TYPED_TEST(NormTest, AddIsOneRoundingPerEntry) {
  for_each_target([] {
    for (const std::int64_t n : kRuns) {
      Guarded<TypeParam> y(n, TypeParam{3}, 1);
      Guarded<TypeParam> twin(n, TypeParam{3}, 1);
      Guarded<TypeParam> x(n);
      fill_run(x, Entries::reals);
      add_inplace(y.data(), x.data(), n);
      reference::add_inplace(twin.data(), x.data(), n);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], twin[i]) << n << " at " << i;
      ASSERT_TRUE(y.intact() && x.intact()) << n;
    }
  });
}

TEST(SimdTarget, IsChosenByNameAndRefusedWithTheChoices) {
  const std::string widest = [] {
    set_simd_target("");
    return std::string(simd_target());
  }();
  try {
    set_simd_target("AVX9");
    FAIL() << "AVX9 was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("\"AVX9\""), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(widest), std::string::npos) << error.what();
  }
  EXPECT_EQ(simd_target(), widest);
  set_simd_target(widest);
  EXPECT_EQ(simd_target(), widest);
  set_simd_target("");
  set_simd_target_from_environment();
}

}  // namespace
}  // namespace spectralclip::kernels

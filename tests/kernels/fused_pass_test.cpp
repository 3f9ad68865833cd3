// SPDX-License-Identifier: Apache-2.0
// The fused pass against its scalar twin on every instruction set: integer data to the last bit, real data within the
// componentwise bound of the inner products, which the twin computes itself from absolute values.
#include "kernels/fused_pass.h"

#include <gtest/gtest.h>

#include "kernels/every_target.h"
#include "kernels/guarded_products.h"

namespace spectralclip::kernels {
namespace {

template <class T>
class FusedPassTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(FusedPassTest, Scalars);

TYPED_TEST(FusedPassTest, EveryLengthOfARow) {
  for_each_target([] {
    for (const std::int64_t n : kLengths) {
      for (const std::int64_t rows : {1, 3, 6, 37}) {
        for (const std::int64_t k : {2, 6, 8}) compare_pass<TypeParam>({rows, n, k, 0, 0});
      }
    }
  });
}

TYPED_TEST(FusedPassTest, EveryNumberOfRows) {
  for_each_target([] {
    for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 34, 70}) {
      for (const std::int64_t k : {4, 10}) {
        compare_pass<TypeParam>({rows, 33, k, 0, 0});
        compare_pass<TypeParam>({rows, 130, k, 5, 1});
      }
    }
  });
}

TYPED_TEST(FusedPassTest, EveryWidth) {
  for_each_target([] {
    for (const std::int64_t k : {2, 4, 6, 8, 10, 14, 16, 64, 100}) {
      for (const std::int64_t n : {1, 17, 130, 1029}) compare_pass<TypeParam>({9, n, k, 3, 1});
    }
  });
}

TYPED_TEST(FusedPassTest, MoreColumnsThanAnyStackBuffer) {
  for_each_target([] { compare_pass<TypeParam>({5, 33, 602, 0, 0}); });
}

TYPED_TEST(FusedPassTest, GapsBetweenRowsAndMisalignedRows) {
  for_each_target([] {
    for (const std::int64_t n : kLengths) {
      for (const std::int64_t gap : {1, 7, 16}) {
        for (const std::int64_t offset : {0, 1, 3}) compare_pass<TypeParam>({7, n, 4, gap, offset});
      }
    }
  });
}

TYPED_TEST(FusedPassTest, SeveralTilesAndBlocks) {
  for_each_target([] {
    compare_pass<TypeParam>({41, 2051, 8, 0, 1});
    compare_pass<TypeParam>({66, 2048, 2, 1, 0});
    compare_pass<TypeParam>({11, 40001, 4, 0, 0});  // rows so long that a block has four
  });
}

TYPED_TEST(FusedPassTest, AddsToWhatIsThere) {
  for_each_target([] {
    PassCase<TypeParam> first({6, 35, 4, 0, 0}, Entries::integers);
    (void)fused_pass(first.pass());
    PassCase<TypeParam> twice({6, 35, 4, 0, 0}, Entries::integers);
    (void)fused_pass(twice.pass());
    (void)fused_pass(twice.pass());
    for (std::int64_t i = 0; i < first.Zt.size(); ++i) ASSERT_EQ(twice.Zt[i], 2 * first.Zt[i]);
    for (std::int64_t i = 0; i < first.S.size(); ++i) ASSERT_EQ(twice.S[i], 2 * first.S[i]);
  });
}

TYPED_TEST(FusedPassTest, NotFiniteWhereverItStands) {
  for_each_target([] {
    for (const std::int64_t n : {1, 8, 17, 66, 1029}) {
      for (const std::int64_t rows : {1, 4, 5, 37}) {
        for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
          for (const std::int64_t row : {std::int64_t{0}, rows - 1}) {
            for (const auto bad :
                 {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity(),
                  -std::numeric_limits<TypeParam>::infinity()}) {
              PassCase<TypeParam> c({rows, n, 2, 1, 1}, Entries::integers);
              c.G.row(row)[at] = bad;
              ASSERT_FALSE(std::isfinite(fused_pass(c.pass()))) << rows << " x " << n << " at " << row << ", " << at;
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(FusedPassTest, OverflowOfSquaresIsNotFinite) {
  for_each_target([] {
    PassCase<TypeParam> c({3, 19, 2, 0, 0}, Entries::integers);
    c.G.row(2)[18] = std::numeric_limits<TypeParam>::max();
    if (std::is_same_v<TypeParam, double> || chosen_target() != std::string("scalar")) {
      EXPECT_FALSE(std::isfinite(fused_pass(c.pass())));
    }
  });
}

TYPED_TEST(FusedPassTest, ZeroRowsGiveZero) {
  for_each_target([] {
    PassCase<TypeParam> c({5, 40, 4, 2, 1}, Entries::reals);
    for (std::int64_t i = 0; i < 5; ++i) std::fill_n(c.G.row(i), 40, TypeParam{0});
    EXPECT_EQ(fused_pass(c.pass()), 0);
    for (std::int64_t i = 0; i < c.Zt.size(); ++i) ASSERT_EQ(c.Zt[i], TypeParam{0});
    for (std::int64_t i = 0; i < c.S.size(); ++i) ASSERT_EQ(c.S[i], 0);
  });
}

// The comparator must not accept what a broken kernel would give: the bound on short rows, integer data on all.
TYPED_TEST(FusedPassTest, BoundSeesOneMissingProduct) {
  const Shape shape{4, 17, 4, 0, 0};
  PassCase<TypeParam> whole(shape, Entries::reals);
  PassCase<TypeParam> broken(shape, Entries::reals);
  broken.G.row(3)[16] = 0;
  PassCase<TypeParam> size(shape, Entries::reals);
  size.make_absolute();
  (void)reference::fused_pass(whole.pass());
  (void)reference::fused_pass(broken.pass());
  (void)reference::fused_pass(size.pass());
  const double limit = shape.terms() * static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  EXPECT_GT(std::abs(whole.S[0] - broken.S[0]), limit * size.S[0]);
  EXPECT_GT(std::abs(static_cast<double>(whole.Zt[16] - broken.Zt[16])), limit * static_cast<double>(size.Zt[16]));
}

}  // namespace
}  // namespace spectralclip::kernels

// SPDX-License-Identifier: Apache-2.0
// Gram matrices and combinations of a few long rows, on every instruction set, against the twins.
#include "kernels/small_products.h"

#include <gtest/gtest.h>

#include "kernels/every_target.h"
#include "kernels/guarded_products.h"

namespace spectralclip::kernels {
namespace {

template <class T>
class SmallProductsTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(SmallProductsTest, Scalars);

constexpr std::int64_t kWidths[] = {1, 2, 3, 4, 5, 6, 8, 10, 14, 16, 64};

template <class T>
void make_absolute(Guarded<T>& A) {
  std::transform(A.data(), A.data() + A.size(), A.data(), [](T x) { return std::abs(x); });
}

// Products and sums in double even for float rows: the bound has the epsilon of double.
template <class T>
void compare_gram(std::int64_t k, std::int64_t n) {
  Guarded<T> A(k * padded(n));
  fill_padded(A, k, n, Source<T>(Entries::reals, 6));
  Guarded<double> found(k * k), expected(k * k), size(k * k);
  gram_rows(A.data(), k, n, padded(n), found.data());
  reference::gram_rows(A.data(), k, n, padded(n), expected.data());
  make_absolute(A);
  reference::gram_rows(A.data(), k, n, padded(n), size.data());
  expect_within<double>(found, expected, size, 2 * static_cast<double>(n), "gram");
  for (std::int64_t a = 0; a < k; ++a) {
    for (std::int64_t b = 0; b < a; ++b) ASSERT_EQ(found[a * k + b], found[b * k + a]);
  }
  ASSERT_TRUE(found.intact() && A.intact());
}

template <class T>
void compare_cross_gram(std::int64_t ka, std::int64_t kb, std::int64_t n) {
  Guarded<T> A(ka * padded(n)), B(kb * padded(n));
  fill_padded(A, ka, n, Source<T>(Entries::reals, 7));
  fill_padded(B, kb, n, Source<T>(Entries::reals, 8));
  Guarded<double> found(ka * kb), expected(ka * kb), size(ka * kb);
  cross_gram_rows(A.data(), ka, B.data(), kb, n, padded(n), found.data());
  reference::cross_gram_rows(A.data(), ka, B.data(), kb, n, padded(n), expected.data());
  make_absolute(A);
  make_absolute(B);
  reference::cross_gram_rows(A.data(), ka, B.data(), kb, n, padded(n), size.data());
  expect_within<double>(found, expected, size, 2 * static_cast<double>(n), "cross gram");
  ASSERT_TRUE(found.intact() && A.intact() && B.intact());
}

// M is rounded to T, then k products are added in T: 2 (k + 2) eps |M||A|. Rows of M further apart than k.
template <class T>
void compare_combine(std::int64_t r, std::int64_t k, std::int64_t n, std::int64_t ldm) {
  Guarded<T> A(k * padded(n));
  fill_padded(A, k, n, Source<T>(Entries::reals, 9));
  Guarded<double> M(r * ldm, std::numeric_limits<double>::quiet_NaN());
  Source<double> source(Entries::reals, 10);
  for (std::int64_t i = 0; i < r; ++i) std::generate_n(M.data() + i * ldm, k, [&] { return source(); });
  Guarded<T> found(r * padded(n), T{7}), expected(r * padded(n)), size(r * padded(n));
  combine_rows(M.data(), r, k, ldm, A.data(), n, padded(n), found.data());
  reference::combine_rows(M.data(), r, k, ldm, A.data(), n, padded(n), expected.data());
  make_absolute(A);
  make_absolute(M);
  reference::combine_rows(M.data(), r, k, ldm, A.data(), n, padded(n), size.data());
  expect_within<T>(found, expected, size, 2 * static_cast<double>(k + 2), "combination");
  ASSERT_TRUE(padding_is_zero(found, r, n)) << "padding of the result, or beyond";
}

TYPED_TEST(SmallProductsTest, Gram) {
  for_each_target([] {
    for (const std::int64_t k : kWidths) {
      for (const std::int64_t n : {1, 3, 8, 15, 16, 17, 66, 1027}) compare_gram<TypeParam>(k, n);
    }
    for (const std::int64_t n : kLengths) compare_gram<TypeParam>(6, n);
  });
}

TYPED_TEST(SmallProductsTest, CrossGram) {
  for_each_target([] {
    for (const std::int64_t ka : kWidths) {
      for (const std::int64_t kb : {1, 4, 7}) compare_cross_gram<TypeParam>(ka, kb, 131);
    }
    for (const std::int64_t n : kLengths) compare_cross_gram<TypeParam>(5, 3, n);
  });
}

TYPED_TEST(SmallProductsTest, Combine) {
  for_each_target([] {
    for (const std::int64_t k : kWidths) {
      for (const std::int64_t r : {std::int64_t{0}, std::int64_t{1}, k}) compare_combine<TypeParam>(r, k, 100, k);
    }
    for (const std::int64_t n : kLengths) compare_combine<TypeParam>(3, 5, n, 8);
  });
}

// float rows: what float products would lose, double ones keep.
TEST(SmallProducts, GramOfFloatsIsTakenInDouble) {
  for_each_target([] {
    Guarded<float> A(2 * padded(2));
    A[0] = 4097;  // 4097^2 needs 25 bits
    A[1] = 1;
    A[padded(2)] = 1;
    Guarded<double> K(4);
    gram_rows(A.data(), 2, 2, padded(2), K.data());
    EXPECT_EQ(K[0], 4097.0 * 4097.0 + 1);
    EXPECT_EQ(K[1], 4097.0);
    EXPECT_EQ(K[3], 1.0);
  });
}

}  // namespace
}  // namespace spectralclip::kernels

// SPDX-License-Identifier: Apache-2.0
// The update in place against its scalar twin on every instruction set, and rows more than 2^31 entries apart.
#include "kernels/apply_right.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "kernels/every_target.h"
#include "kernels/guarded_products.h"

namespace spectralclip::kernels {
namespace {

template <class T>
class ApplyRightTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ApplyRightTest, Scalars);

TYPED_TEST(ApplyRightTest, EveryLengthOfARow) {
  for_each_target([] {
    for (const std::int64_t n : kLengths) {
      for (const std::int64_t rows : {1, 3, 6, 37}) {
        for (const std::int64_t c : {1, 2, 3, 7}) compare_update<TypeParam>({rows, n, c, 0, 0});
      }
    }
  });
}

TYPED_TEST(ApplyRightTest, EveryNumberOfRows) {
  for_each_target([] {
    for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 34, 70}) {
      compare_update<TypeParam>({rows, 33, 2, 0, 0});
      compare_update<TypeParam>({rows, 130, 5, 5, 1});
    }
  });
}

TYPED_TEST(ApplyRightTest, EveryWidth) {
  for_each_target([] {
    for (const std::int64_t c : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 16, 64}) {
      for (const std::int64_t n : {1, 17, 130, 1029}) compare_update<TypeParam>({9, n, c, 3, 1});
    }
  });
}

TYPED_TEST(ApplyRightTest, SeveralTilesAndBlocks) {
  for_each_target([] {
    compare_update<TypeParam>({41, 2051, 8, 0, 1});
    compare_update<TypeParam>({66, 2048, 1, 1, 0});
    compare_update<TypeParam>({11, 40001, 3, 0, 0});
  });
}

// Bits of G are kept where the update is zero: rows orthogonal to V, and coefficients of zero.
TYPED_TEST(ApplyRightTest, NothingToRemoveKeepsTheBits) {
  for_each_target([] {
    UpdateCase<TypeParam> c({7, 67, 3, 2, 1}, Entries::reals);
    UpdateCase<TypeParam> before({7, 67, 3, 2, 1}, Entries::reals);
    std::fill_n(c.coefficient.data(), 3, TypeParam{0});
    (void)apply_right(c.update());
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < 67; ++j) ASSERT_EQ(c.G.row(i)[j], before.G.row(i)[j]);
    }
  });
}

// A reservation that costs no memory but the pages that are touched.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseMemory() {
    if (granted()) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  [[nodiscard]] bool granted() const { return data_ != MAP_FAILED; }
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

// The third row begins more than 2^31 entries after the first: a 32-bit index would wrap.
const Shape kFarShape{3, 37, 4, 0, 0};
constexpr std::int64_t kFarStride = (std::int64_t{1} << 30) + 5;

template <class T>
void spread_rows(Strided<T>& G, T* far) {
  for (std::int64_t i = 0; i < G.rows; ++i) std::copy_n(G.row(i), G.cols, far + i * kFarStride);
}

template <class T>
void compare_far_pass(T* far) {
  PassCase<T> packed(kFarShape, Entries::reals);
  PassCase<T> spread(kFarShape, Entries::reals);
  spread_rows(packed.G, far);
  FusedPass<T> pass = spread.pass();
  pass.G = far;
  pass.stride = kFarStride;
  EXPECT_EQ(fused_pass(pass), fused_pass(packed.pass()));
  for (std::int64_t i = 0; i < packed.Zt.size(); ++i) ASSERT_EQ(spread.Zt[i], packed.Zt[i]);
  for (std::int64_t i = 0; i < packed.S.size(); ++i) ASSERT_EQ(spread.S[i], packed.S[i]);
}

template <class T>
void compare_far_update(T* far) {
  UpdateCase<T> packed(kFarShape, Entries::reals);
  spread_rows(packed.G, far);
  RightUpdate<T> update = packed.update();
  update.G = far;
  update.stride = kFarStride;
  EXPECT_EQ(apply_right(update), apply_right(packed.update()));
  for (std::int64_t i = 0; i < packed.G.rows; ++i) {
    for (std::int64_t j = 0; j < packed.G.cols; ++j) ASSERT_EQ(far[i * kFarStride + j], packed.G.row(i)[j]);
  }
}

TYPED_TEST(ApplyRightTest, MoreThanTwoToThe31Entries) {
  const SparseMemory memory(static_cast<std::size_t>(2 * kFarStride + 64) * sizeof(TypeParam));
  if (!memory.granted()) GTEST_SKIP() << "cannot reserve " << 2 * kFarStride << " entries of address space";
  auto* far = static_cast<TypeParam*>(memory.data());
  for_each_target([far] {
    compare_far_pass(far);
    compare_far_update(far);
  });
}

}  // namespace
}  // namespace spectralclip::kernels

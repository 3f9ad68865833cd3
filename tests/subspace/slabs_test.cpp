// SPDX-License-Identifier: Apache-2.0
// How a matrix is cut into slabs, and that a pass over slabs gives equal bits on any executor.
#include "subspace/slabs.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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

// Everything a pass and an update give, on one executor.
template <class T>
struct Outcome {
  std::vector<T> Zt;
  std::vector<double> S;
  std::vector<T> G;
  double norm_squared = 0;
  double updated_norm_squared = 0;

  bool operator==(const Outcome&) const = default;
};

template <class T>
Outcome<T> pass_and_update(Executor& executor) {
  constexpr std::int64_t kRows = 4099, kCols = 1030, kWidth = 4;
  const std::int64_t ld = kernels::padded(kCols);
  std::mt19937_64 random(5);
  std::normal_distribution<T> normal;
  Outcome<T> o{std::vector<T>(static_cast<std::size_t>(kWidth * ld)), std::vector<double>(kWidth * kWidth),
               std::vector<T>(static_cast<std::size_t>(kRows * kCols))};
  for (T& x : o.G) x = normal(random);
  Workspace workspace;
  const AnyMatrix G(MatrixView<T>(o.G.data(), kRows, kCols));
  auto buffers = PassBuffers<T>::plan(G, kWidth, executor);
  EXPECT_GT(buffers.slabs.count, 2) << "the case must have slabs";
  workspace.reserve(buffers.bytes() + 2 * Workspace::padded_bytes<T>(kWidth * ld));
  buffers.grant(workspace);
  T* Vt = workspace.take<T>(kWidth * ld);
  T* Zt = workspace.take<T>(kWidth * ld);
  std::fill(Vt, Vt + kWidth * ld, T{0});
  for (std::int64_t c = 0; c < kWidth; ++c) {
    for (std::int64_t j = 0; j < kCols; ++j) Vt[c * ld + j] = normal(random) / T{32};
  }
  o.norm_squared = run_pass(G, Vt, Zt, o.S.data(), buffers, executor);
  std::copy(Zt, Zt + kWidth * ld, o.Zt.begin());
  const T coefficient[] = {T(0.5), T(0.25), T(0.125)};
  o.updated_norm_squared = run_update(G, Vt, std::int64_t{3}, coefficient, buffers, executor);
  return o;
}

template <class T>
class SlabPassTest : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(SlabPassTest, Scalars);

TYPED_TEST(SlabPassTest, EqualBitsOnAnyNumberOfThreads) {
  const Outcome<TypeParam> expected = pass_and_update<TypeParam>(serial_executor());
  EXPECT_NE(expected.norm_squared, expected.updated_norm_squared);
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(pass_and_update<TypeParam>(pool) == expected) << threads << " threads";
  }
}

}  // namespace
}  // namespace spectralclip

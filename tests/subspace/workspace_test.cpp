// SPDX-License-Identifier: Apache-2.0
// Scratch memory: aligned pieces that do not overlap, and a block that is reused until it is outgrown.
#include "subspace/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace spectralclip {
namespace {

TEST(Arena, PiecesAreAlignedAndApart) {
  Arena arena;
  arena.reserve(Arena::padded_bytes<float>(3) + Arena::padded_bytes<double>(9) + Arena::padded_bytes<float>(16));
  float* a = arena.take<float>(3);
  double* b = arena.take<double>(9);
  float* c = arena.take<float>(16);
  for (const void* piece : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 64, 0U);
  }
  std::fill_n(a, 3, 1.0F);
  std::fill_n(b, 9, 2.0);
  std::fill_n(c, 16, 3.0F);
  EXPECT_TRUE(std::all_of(a, a + 3, [](float x) { return x == 1.0F; }));
  EXPECT_TRUE(std::all_of(b, b + 9, [](double x) { return x == 2.0; }));
}

TEST(Arena, PiecesArePaddedToTheAlignment) {
  EXPECT_EQ(Arena::padded_bytes<float>(0), 0U);
  EXPECT_EQ(Arena::padded_bytes<float>(1), 64U);
  EXPECT_EQ(Arena::padded_bytes<float>(16), 64U);
  EXPECT_EQ(Arena::padded_bytes<double>(9), 128U);
}

TEST(Arena, IsReusedUntilTooSmall) {
  Arena arena;
  EXPECT_EQ(arena.bytes(), 0U);
  arena.reserve(1000);
  EXPECT_EQ(arena.bytes(), 1000U);
  const double* first = arena.take<double>(10);
  arena.reserve(640);
  EXPECT_EQ(arena.bytes(), 1000U) << "never given back";
  EXPECT_EQ(arena.take<double>(10), first) << "from the beginning again";
  arena.reserve(1000);
  EXPECT_EQ(arena.take<double>(10), first) << "and when it just fits";
  arena.reserve(5000);
  EXPECT_EQ(arena.bytes(), 5000U);
}

TEST(Workspace, LevelsEachArenaByItself) {
  Workspace a, b;
  a.basis.reserve(1000);
  a.pass.reserve(64);
  b.basis.reserve(128);
  b.pass.reserve(2000);
  a.level(b);
  EXPECT_EQ(a.basis.bytes(), 1000U);
  EXPECT_EQ(a.pass.bytes(), 2000U);
  EXPECT_EQ(a.bytes(), 3000U);
  b.level(a);
  EXPECT_EQ(b.bytes(), a.bytes());
  EXPECT_EQ(b.basis.bytes(), 1000U);
}

}  // namespace
}  // namespace spectralclip

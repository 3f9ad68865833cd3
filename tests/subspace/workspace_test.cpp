// SPDX-License-Identifier: Apache-2.0
// Scratch memory: aligned pieces that do not overlap, and a block that is reused.
#include "subspace/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace spectralclip {
namespace {

TEST(Workspace, PiecesAreAlignedAndApart) {
  Workspace workspace;
  workspace.reserve(Workspace::padded_bytes<float>(3) + Workspace::padded_bytes<double>(9) +
                    Workspace::padded_bytes<float>(16));
  float* a = workspace.take<float>(3);
  double* b = workspace.take<double>(9);
  float* c = workspace.take<float>(16);
  for (const void* piece : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c)}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 64, 0U);
  }
  std::fill_n(a, 3, 1.0F);
  std::fill_n(b, 9, 2.0);
  std::fill_n(c, 16, 3.0F);
  EXPECT_TRUE(std::all_of(a, a + 3, [](float x) { return x == 1.0F; }));
  EXPECT_TRUE(std::all_of(b, b + 9, [](double x) { return x == 2.0; }));
}

TEST(Workspace, PiecesArePaddedToTheAlignment) {
  EXPECT_EQ(Workspace::padded_bytes<float>(0), 0U);
  EXPECT_EQ(Workspace::padded_bytes<float>(1), 64U);
  EXPECT_EQ(Workspace::padded_bytes<float>(16), 64U);
  EXPECT_EQ(Workspace::padded_bytes<double>(9), 128U);
}

TEST(Workspace, IsReusedUntilTooSmall) {
  Workspace workspace;
  EXPECT_EQ(workspace.bytes(), 0U);
  workspace.reserve(1000);
  EXPECT_EQ(workspace.bytes(), 1000U);
  const double* first = workspace.take<double>(10);
  workspace.reserve(640);
  EXPECT_EQ(workspace.bytes(), 1000U) << "never given back";
  EXPECT_EQ(workspace.take<double>(10), first) << "from the beginning again";
  workspace.reserve(5000);
  EXPECT_EQ(workspace.bytes(), 5000U);
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// One read of G gives everything a step needs: W = G V, Z = G^T W, S = W^T W and ||G||_F^2. A block of rows that fits
// the second-level cache is multiplied by V and, while still there, added to Z. W itself is never stored.
#pragma once

#include <cstdint>

namespace spectralclip::kernels {

// Columns come in pairs: k is a multiple of kColumnStep. Rows of Vt and Zt are padded(n) entries apart, zeros behind n.
inline constexpr std::int64_t kColumnStep = 2;
inline constexpr std::int64_t kPadEntries = 16;

// n rounded up to an odd number of 16 entries: an odd number of cache lines, so that the same place of many rows falls
// into different sets of the L1. (With 3072 floats a row, 12 KiB, all rows of V would share one set.)
[[nodiscard]] constexpr std::int64_t padded(std::int64_t n) noexcept {
  return ((n + kPadEntries - 1) / kPadEntries | 1) * kPadEntries;
}

// Rows that go through all columns together: with a tile of V they fit into L1; two and three divide them.
inline constexpr std::int64_t kStripRows = 6;
inline constexpr std::int64_t kMaxBlockRows = 6 * kStripRows;

// Rows of G taken together, a function of the row's bytes alone: 96 KiB of G, the next block, V and Z stay in a 512 KiB
// L2.
[[nodiscard]] constexpr std::int64_t block_rows(std::int64_t row_bytes) noexcept {
  const std::int64_t rows = (std::int64_t{96} << 10) / (row_bytes > 0 ? row_bytes : 1) / kStripRows * kStripRows;
  return rows < kStripRows ? kStripRows : rows > kMaxBlockRows ? kMaxBlockRows : rows;
}

template <class T>
struct FusedPass {
  const T* G = nullptr;  // rows x cols, row-major
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  const T* Vt = nullptr;  // k x padded(cols): row c is column c of V
  std::int64_t k = 0;
  T* Zt = nullptr;       // k x padded(cols), added to
  double* S = nullptr;   // k x k, added to
  T* scratch = nullptr;  // fused_pass_scratch<T>(k) entries
};

template <class T>
[[nodiscard]] std::int64_t fused_pass_scratch(std::int64_t k) noexcept;

// 4 m n k flops, one read of G. Returns the sum of squares of G: not finite when an entry is not, or on overflow.
[[nodiscard]] double fused_pass(const FusedPass<float>& pass);
[[nodiscard]] double fused_pass(const FusedPass<double>& pass);

}  // namespace spectralclip::kernels

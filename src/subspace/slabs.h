// SPDX-License-Identifier: Apache-2.0
// A matrix is cut into slabs of rows by its shape alone; slabs may run on any threads, their sums are added in order.
// Hence equal bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spectralclip {

struct Slabs {
  std::int64_t rows = 0;    // of the matrix
  std::int64_t height = 0;  // rows per slab (the last may have fewer)
  std::int64_t count = 0;   // 0 for a matrix without rows, as an empty shard is

  [[nodiscard]] std::int64_t begin(std::int64_t slab) const noexcept { return slab * height; }
  [[nodiscard]] std::int64_t size(std::int64_t slab) const noexcept { return std::min(height, rows - slab * height); }
};

// About a million entries a slab: large enough that adding its k x n share of Z costs a percent, small enough to give
// sixteen threads work on a 4096 x 4096 matrix. At most 32, and at most 8 MiB of shares (bytes_per_share each).
[[nodiscard]] inline Slabs make_slabs(std::int64_t rows, std::int64_t cols, std::int64_t bytes_per_share) noexcept {
  if (rows == 0) return {};
  constexpr std::int64_t kSlabEntries = std::int64_t{1} << 20;
  const std::int64_t wanted = rows / std::max<std::int64_t>(1, kSlabEntries / std::max<std::int64_t>(cols, 1));
  const std::int64_t room = (std::int64_t{8} << 20) / std::max<std::int64_t>(bytes_per_share, 1);
  const std::int64_t count = std::clamp<std::int64_t>(std::min<std::int64_t>(wanted, room), 1, 32);
  const std::int64_t height = ((rows + count - 1) / count + 3) / 4 * 4;  // whole groups of four rows
  return {rows, height, (rows + height - 1) / height};
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// Sums over the ranks that hold the rows (or columns) of a matrix. Everything that decides anything is in these sums,
// so ranks that see equal sums go on alike. Adapters (MPI, torch.distributed) implement it; one process needs none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "spectralclip/export.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

// rows x cols numbers of `type` (float32 or float64), rows `stride` apart, replaced by their sums over ranks.
struct SumBlock {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  ScalarType type = ScalarType::float64;

  [[nodiscard]] std::int64_t count() const noexcept { return rows * cols; }
  [[nodiscard]] std::byte* row(std::int64_t i) const noexcept {
    return static_cast<std::byte*>(data) + i * stride * size_of(type);
  }
};

class SPECTRALCLIP_EXPORT Reduction {
 public:
  virtual ~Reduction() = default;
  // The blocks of many matrices at once; every rank calls it as often, with blocks of the same sizes in the same order.
  // Every rank must come out with the same bits. What it throws ends the step.
  virtual void sum(std::span<const SumBlock> blocks) = 0;
};

// How many numbers of this type there are, and how they travel: one run for all blocks of a type.
[[nodiscard]] inline std::int64_t packed_count(std::span<const SumBlock> blocks, ScalarType type) noexcept {
  std::int64_t count = 0;
  for (const SumBlock& block : blocks) count += block.type == type ? block.count() : 0;
  return count;
}
inline void pack(std::span<const SumBlock> blocks, ScalarType type, void* run) noexcept {
  auto* to = static_cast<std::byte*>(run);
  for (const SumBlock& block : blocks) {
    if (block.type != type) continue;
    const auto bytes = static_cast<std::size_t>(block.cols * size_of(type));
    for (std::int64_t i = 0; i < block.rows; ++i, to += bytes) std::memcpy(to, block.row(i), bytes);
  }
}
inline void unpack(const void* run, ScalarType type, std::span<const SumBlock> blocks) noexcept {
  const auto* from = static_cast<const std::byte*>(run);
  for (const SumBlock& block : blocks) {
    if (block.type != type) continue;
    const auto bytes = static_cast<std::size_t>(block.cols * size_of(type));
    for (std::int64_t i = 0; i < block.rows; ++i, from += bytes) std::memcpy(block.row(i), from, bytes);
  }
}

}  // namespace spectralclip

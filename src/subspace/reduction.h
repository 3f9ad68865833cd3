// SPDX-License-Identifier: Apache-2.0
// Sums over the ranks that hold the rows of a matrix. Everything that decides anything is in these sums, so ranks that
// see equal sums go on alike. Adapters (MPI, torch.distributed) implement it; one process needs none.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "spectralclip/matrix.h"

namespace spectralclip {

// `count` numbers of `type` (float32 or float64) at `data`, replaced by their sums over ranks.
struct SumBlock {
  void* data = nullptr;
  std::int64_t count = 0;
  ScalarType type = ScalarType::float64;
};
using SumBlocks = std::array<SumBlock, 2>;  // of one matrix: Z, and the small sums; unused ones have count 0

class Reduction {
 public:
  virtual ~Reduction() = default;
  // The blocks of many matrices at once; every rank calls it as often, with blocks of the same sizes in the same order.
  // Every rank must come out with the same bits.
  virtual void sum(std::span<const SumBlock> blocks) = 0;
};

}  // namespace spectralclip

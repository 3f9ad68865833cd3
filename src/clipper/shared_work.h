// SPDX-License-Identifier: Apache-2.0
// Replicated gradients: each rank clips its share of the layers and tells the others what it did, as a value. Everybody
// ends with the same bits as if all had clipped everything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clipper/layer.h"
#include "spectralclip/factors.h"

namespace spectralclip {

// Which rank clips which layer: by descending cost, each to the rank that has least so far. -1 for layers that are
// split or lie elsewhere. The same on every rank: it follows from shapes alone.
[[nodiscard]] std::vector<int> owners_of(const LayerSet& set, int ranks);

// One layer of a share: its report, its subspace, what was done to its gradient.
void write_shared(const LayerSet& set, std::size_t layer, const ClipFactors& factors, std::vector<std::uint8_t>& out);

struct SharedLayer {
  std::size_t layer = 0;
  ClipReport report;
  SubspaceState subspace;
  ClipFactors factors;
};
// All layers of a share; throws InvalidArgument on bytes that are none of this model.
[[nodiscard]] std::vector<SharedLayer> read_shared(const LayerSet& set, std::span<const std::uint8_t> bytes);

}  // namespace spectralclip

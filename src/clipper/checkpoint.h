// SPDX-License-Identifier: Apache-2.0
// The state of a clipper as bytes. Little-endian:
//
//   header    magic[8], u32 format version, u32 library version, u64 fingerprint of the options, u64 payload bytes
//   payload   i64 steps, u64 layers, then per layer:
//             u32 + name, i64 rows, cols, steps, steps_clipped,
//             u8 threshold kind, f64 decay, i64 observed, f64 average, u64 + window values oldest first,
//             i64 subspace cols, columns, kept, calm_steps, clipped_lately, u64 + V in float32
//   trailer   u64 FNV-1a of all bytes before it
//
// The library version and the fingerprint are for people; neither is enforced, options may change between runs. A
// threshold of another kind uses what it can of the past, and a note says what (saved_threshold.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clipper/layer.h"

namespace spectralclip {

struct LayerState {
  std::int64_t steps = 0;
  std::int64_t steps_clipped = 0;
  ThresholdState threshold;
  SubspaceState subspace;
};

struct Checkpoint {
  std::int64_t steps = 0;
  std::vector<LayerState> layers;  // in the clipper's order
  std::vector<std::string> notes;  // what could not be taken over as it was, a line for each difference
};

[[nodiscard]] std::vector<std::uint8_t> encode_checkpoint(std::int64_t steps, const LayerSet& set);
[[nodiscard]] std::int64_t checkpoint_bytes(const LayerSet& set) noexcept;  // what encode_checkpoint would give

// Throws StateFileError saying what is wrong: damage first, then another model's names or shapes.
[[nodiscard]] Checkpoint decode_checkpoint(std::span<const std::uint8_t> bytes, const LayerSet& set);

}  // namespace spectralclip

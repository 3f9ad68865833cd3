// SPDX-License-Identifier: Apache-2.0
// From a clipper's state to bytes; the layout is in checkpoint.h.
#include <algorithm>
#include <string>

#include "clipper/byte_stream.h"
#include "clipper/checkpoint.h"
#include "clipper/checkpoint_format.h"
#include "random/name_hash.h"
#include "spectralclip/version.h"

namespace spectralclip {
namespace {

constexpr std::uint32_t kLibraryVersion =
    SPECTRALCLIP_VERSION_MAJOR << 16 | SPECTRALCLIP_VERSION_MINOR << 8 | SPECTRALCLIP_VERSION_PATCH;

std::uint64_t fingerprint_of(const LayerSet& set) {
  std::uint64_t fingerprint = 0;
  for (const Layer& layer : set.layers) {
    const std::string text = detail::concat(to_string(layer.threshold), to_string(layer.clip.method), " ",
                                            layer.clip.rank.value_or(0), " ", layer.clip.seed);
    fingerprint = mixed_bits(fingerprint + name_hash(text));
  }
  return fingerprint;
}

std::size_t window_values(const ThresholdState& state) noexcept {
  return std::min(static_cast<std::size_t>(state.observed), state.window.size());
}

// Rows of V beyond `kept` hold nothing.
std::span<const float> kept_vectors(const SubspaceState& state) noexcept {
  return std::span(state.V).first(static_cast<std::size_t>(state.kept * state.cols));
}

std::size_t layer_bytes(const Layer& layer, const LayerReport& report) noexcept {
  return kLayerFixedBytes + report.name.size() + window_values(layer.threshold_state) * sizeof(double) +
         kept_vectors(layer.subspace).size_bytes();
}

std::size_t payload_bytes(const LayerSet& set) noexcept {
  std::size_t bytes = kPayloadFixedBytes;
  for (std::size_t i = 0; i < set.layers.size(); ++i) bytes += layer_bytes(set.layers[i], set.reports[i]);
  return bytes;
}

void put_threshold(ByteWriter& out, const ThresholdOptions& options, const ThresholdState& state) {
  out.put(static_cast<std::uint8_t>(options.kind));
  out.put(options.decay);
  out.put(state.observed);
  out.put(state.average);
  const std::size_t count = window_values(state);
  out.put(static_cast<std::uint64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t oldest = static_cast<std::size_t>(state.observed) - count;
    out.put(state.window[(oldest + i) % state.window.size()]);
  }
}

void put_subspace(ByteWriter& out, const SubspaceState& state) {
  for (const std::int64_t value : {state.cols, state.columns, state.kept, state.calm_steps, state.clipped_lately})
    out.put(value);
  const auto V = kept_vectors(state);
  out.put(static_cast<std::uint64_t>(V.size()));
  for (const float value : V) out.put(value);
}

}  // namespace

std::int64_t checkpoint_bytes(const LayerSet& set) noexcept {
  return static_cast<std::int64_t>(kHeaderBytes + payload_bytes(set) + kChecksumBytes);
}

std::vector<std::uint8_t> encode_checkpoint(std::int64_t steps, const LayerSet& set) {
  ByteWriter out;
  out.reserve(static_cast<std::size_t>(checkpoint_bytes(set)));
  for (const std::uint8_t byte : kCheckpointMagic) out.put(byte);
  out.put(kCheckpointVersion);
  out.put(kLibraryVersion);
  out.put(fingerprint_of(set));
  out.put(static_cast<std::uint64_t>(payload_bytes(set)));
  out.put(steps);
  out.put(static_cast<std::uint64_t>(set.layers.size()));
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const Layer& layer = set.layers[i];
    const LayerReport& report = set.reports[i];
    out.put(std::string_view(report.name));
    for (const std::int64_t value : {report.rows, report.cols, report.steps, report.steps_clipped}) out.put(value);
    put_threshold(out, layer.threshold, layer.threshold_state);
    put_subspace(out, layer.subspace);
  }
  out.put(checksum_of(out.bytes()));
  return std::move(out).take();
}

}  // namespace spectralclip

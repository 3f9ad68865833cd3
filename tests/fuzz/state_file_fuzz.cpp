// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the state file. The first byte chooses how the input is used: as the bytes themselves, or as
// edits (position, value) of a valid state whose length and checksum are then made right again, so that the parser
// behind them is reached. Only StateFileError may escape; after a refusal the clipper is as it was; what was accepted
// survives its own round trip.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "clipper/byte_stream.h"
#include "clipper/checkpoint_format.h"
#include "spectralclip/clipper.h"
#include "spectralclip/error.h"

namespace {

using spectralclip::Clipper;
using Bytes = std::vector<std::uint8_t>;

Clipper make_clipper() {
  spectralclip::ClipperOptions options;
  options.threshold.kind = spectralclip::ThresholdKind::quantile;
  options.threshold.window = 4;
  options.clip.rank = 2;  // a search even of so small a matrix: there are vectors to keep
  return Clipper({{"w", {5, 3}}, {"b", {4}}}, options);
}

// A state with everything in it: full window, tracked vectors, counters.
Bytes make_seed() {
  Clipper clipper = make_clipper();
  for (int step = 0; step < 6; ++step) {
    std::array<float, 15> w{};
    std::array<float, 4> b{};
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(step)) % 5) - 2.0F;
    b.fill(1.0F + static_cast<float>(step));
    const std::array<spectralclip::Gradient, 2> gradients = {{{w.data()}, {b.data()}}};
    (void)clipper.step(gradients, spectralclip::serial_executor());
  }
  return clipper.serialize();
}

void put(Bytes& bytes, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

void reseal(Bytes& bytes) {
  using namespace spectralclip;
  put(bytes, kHeaderBytes - 8, bytes.size() - kHeaderBytes - kChecksumBytes);
  const std::size_t sealed = bytes.size() - kChecksumBytes;
  put(bytes, sealed, checksum_of(std::span(bytes).first(sealed)));
}

// Edits of three bytes: position (two bytes) and new value; the last odd bytes shorten or lengthen the payload.
Bytes edited(const Bytes& seed, std::span<const std::uint8_t> edits) {
  Bytes bytes = seed;
  for (; edits.size() >= 3; edits = edits.subspan(3)) {
    const std::size_t at = (std::size_t{edits[0]} << 8 | edits[1]) % bytes.size();
    bytes[at] = edits[2];
  }
  if (edits.size() == 1)
    bytes.resize(std::max(bytes.size() - edits[0], spectralclip::kHeaderBytes + spectralclip::kChecksumBytes));
  if (edits.size() == 2) bytes.insert(bytes.end(), edits[0], edits[1]);
  reseal(bytes);
  return bytes;
}

void require(bool condition) {
  if (!condition) std::abort();
}

void try_state(const Bytes& seed, std::span<const std::uint8_t> bytes) {
  static Clipper clipper = make_clipper();
  clipper.deserialize(seed);
  try {
    clipper.deserialize(bytes);
  } catch (const spectralclip::StateFileError&) {
    require(clipper.serialize() == seed);
    return;
  }
  const Bytes accepted = clipper.serialize();
  clipper.deserialize(accepted);
  require(clipper.serialize() == accepted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Bytes seed = make_seed();
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    try_state(seed, rest);
  } else {
    try_state(seed, edited(seed, rest));
  }
  return 0;
}

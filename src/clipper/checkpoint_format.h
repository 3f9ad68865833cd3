// SPDX-License-Identifier: Apache-2.0
// Constants that the encoder and the decoder of checkpoint.h share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spectralclip {

// A high bit and both kinds of line ends, as PNG does: a transfer in text mode is noticed at once.
inline constexpr std::array<std::uint8_t, 8> kCheckpointMagic = {0x89, 'S', 'C', 'L', 'I', 'P', '\r', '\n'};
inline constexpr std::uint32_t kCheckpointVersion = 1;
inline constexpr std::size_t kChecksumBytes = 8;
inline constexpr std::size_t kHeaderBytes = kCheckpointMagic.size() + 4 + 4 + 8 + 8;
inline constexpr std::size_t kPayloadFixedBytes = 8 + 8;
// Without name, window and V.
inline constexpr std::size_t kLayerFixedBytes = 4 + 4 * 8 + (1 + 8 + 8 + 8 + 8) + (5 * 8 + 8);

}  // namespace spectralclip

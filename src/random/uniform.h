// SPDX-License-Identifier: Apache-2.0
// Random columns: independent entries, uniform on (-sqrt 3, sqrt 3), so of variance one. Uniform rather than Gaussian
// because it needs no logarithm (the bits are the same on every machine) and because Ball's cube-slicing theorem bounds
// the density of any projection of it by 1/sqrt(6), which is what the certificate rests on (docs/numerics.md).
#pragma once

#include <array>
#include <cstdint>

#include "random/stream.h"

namespace spectralclip {

// Philox4x32-10 of Salmon et al. (SC 2011): four 32-bit words for a 128-bit counter under a 64-bit key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) noexcept;

// out[0 … n) = column `column` of the stream's random matrix. Any thread, any order: the same bits.
void fill_uniform(const RandomStream& stream, std::uint32_t column, float* out, std::int64_t n) noexcept;
void fill_uniform(const RandomStream& stream, std::uint32_t column, double* out, std::int64_t n) noexcept;

}  // namespace spectralclip

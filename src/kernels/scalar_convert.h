// SPDX-License-Identifier: Apache-2.0
// One 16-bit float at a time: the oracle of convert.h and what dense methods use. Round to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

#include "spectralclip/matrix.h"

namespace spectralclip::kernels {

[[nodiscard]] inline float to_float(BFloat16 x) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

[[nodiscard]] inline BFloat16 to_bfloat16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // keep NaN a NaN
  const std::uint32_t rounding = 0x7fffU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((bits + rounding) >> 16)};
}

[[nodiscard]] inline float to_float(Float16 x) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = x.bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));  // Inf, NaN
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal or zero: exact
  return sign != 0 ? -magnitude : magnitude;
}

[[nodiscard]] inline Float16 to_float16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {static_cast<std::uint16_t>(sign | 0x7e00U)};   // NaN
  if (magnitude >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // rounds to Inf
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 leaves the 24 bits after 2^-24 in the low mantissa, rounded
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U))};
  }
  const std::uint32_t rounding = 0xfffU + ((magnitude >> 13) & 1U);
  return {static_cast<std::uint16_t>(sign | (((magnitude + rounding) - 0x38000000U) >> 13))};
}

[[nodiscard]] inline float to_float(float x) noexcept { return x; }

}  // namespace spectralclip::kernels

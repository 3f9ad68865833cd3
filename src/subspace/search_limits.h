// SPDX-License-Identifier: Apache-2.0
// Numbers shared by the parts of the search.
#pragma once

#include <cstdint>

namespace spectralclip {

// A column of W counts as a combination of earlier ones when less than this share of its square is new: rounding of Z,
// eps sigma_max, is amplified by the inverse root of it in B = L^-1 Z^T, to 1e-4 sigma_max (float) at worst.
template <class T>
inline constexpr double kDrop = sizeof(T) == 4 ? 1e-6 : 1e-10;

[[nodiscard]] constexpr std::int64_t even(std::int64_t k) noexcept { return (k + 1) / 2 * 2; }

}  // namespace spectralclip

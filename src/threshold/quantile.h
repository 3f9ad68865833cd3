// SPDX-License-Identifier: Apache-2.0
// Order statistics of a small window kept in order: exact at float64, no allocation. Not a streaming sketch: the
// window is at most a few thousand values, and a shift of that many doubles costs less than one row of a gradient.
#pragma once

#include <cstddef>
#include <span>

#include "spectralclip/threshold.h"

namespace spectralclip {

// The q-quantile of ascending values (at least one), 0 <= q <= 1. With h = q (n - 1) in float64:
// lower: sorted[floor(h)], as the published clipper; linear: between the neighbours of h, as numpy.quantile. O(1).
[[nodiscard]] double quantile_of_sorted(std::span<const double> sorted, double q, Interpolation interpolation) noexcept;

// `sorted` is ascending except that slot `hole` is free; moves values through the hole until `value` fits. O(n).
void place_sorted(std::span<double> sorted, std::size_t hole, double value) noexcept;

}  // namespace spectralclip

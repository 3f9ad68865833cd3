// SPDX-License-Identifier: Apache-2.0
// Long series made short enough to draw without losing their shape.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

inline constexpr std::size_t kCurvePoints = 1500;  // more than a screen has columns for a figure

enum class Spacing { linear, logarithmic };

// Seeds of one name as one curve: at each point the mean over seeds, its sample deviation, and the lowest and highest
// seed. All vectors have equal length; `seeds` says how many were left (a diverged one ends early).
struct SeedCurve {
  std::vector<double> step, seconds, mean, deviation, low, high;
  std::vector<int> seeds;
};

// Points are the distinct steps when there are at most `limit`. Otherwise `limit` buckets, evenly in step or in its
// logarithm, in which every seed is averaged before the seeds are compared. Non-finite values are left out.
[[nodiscard]] SeedCurve over_seeds(std::span<const MetricSeries* const> runs, Spacing spacing,
                                   std::size_t limit = kCurvePoints);

// Which of `values` to keep so that the envelope survives: the smallest and the largest of each of limit / 2 stretches,
// in their order. All of them when there are at most `limit`. NaN is kept only where a stretch has nothing else.
[[nodiscard]] std::vector<std::size_t> envelope(std::span<const double> values, std::size_t limit = kCurvePoints);

// At most `limit` of 0 … count - 1, evenly, with the first and the last.
[[nodiscard]] std::vector<std::size_t> evenly(std::size_t count, std::size_t limit);

}  // namespace spectralclip::lab::report

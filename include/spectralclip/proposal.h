// SPDX-License-Identifier: Apache-2.0
// From measured sigma_max to a constant threshold: which tau would have clipped a given share of the steps, and how
// well that number is known.
#pragma once

#include <cstdint>
#include <span>

#include "spectralclip/export.h"

namespace spectralclip {

struct ThresholdProposal {
  std::int64_t steps = 0;  // values it rests on: the finite ones
  double tau = 0;          // sigma_max was above it in at most the wanted share of the steps
  double share = 0;        // … namely in this one: at most what was wanted, 0 when there were too few steps for one
  // 95 % interval of that quantile from its order statistics (binomial, no distribution assumed), as if the steps were
  // independent: high is infinity and low is 0 where the steps are too few to say.
  double low = 0;
  double high = 0;
  // The same quantile over the first and the second half of the steps. Far apart: the scale drifts, and a constant will
  // not fit; neighbouring steps of a training are alike, so trust these before the interval.
  double early = 0;
  double late = 0;
};

// sigma_max of successive steps, oldest first; those that are not finite are left out. Throws InvalidArgument unless
// 0 <= share < 1. O(n log n). No value at all: steps = 0 and the numbers are NaN.
[[nodiscard]] SPECTRALCLIP_EXPORT ThresholdProposal propose_threshold(std::span<const double> sigma_max, double share);

}  // namespace spectralclip

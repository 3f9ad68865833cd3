// SPDX-License-Identifier: Apache-2.0
// Whether a threshold state that came from outside (a checkpoint) can be used with these options.
#pragma once

#include "spectralclip/threshold.h"

namespace spectralclip {

// True when observe() and threshold() could have produced `state` under `options`: vector sizes as
// make_threshold_state sets them, every value finite and >= 0, `sorted` the same multiset as the filled part of
// `window`.
[[nodiscard]] bool fits(const ThresholdOptions& options, const ThresholdState& state);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The past of a threshold as a checkpoint holds it, and what a threshold of today's options can use of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spectralclip/threshold.h"

namespace spectralclip {

struct SavedThreshold {
  ThresholdKind kind = ThresholdKind::constant;
  double decay = 0;
  std::int64_t observed = 0;
  double average = 0;          // ema, not bias-corrected
  std::vector<double> values;  // quantile: oldest first
};

// The saved past under the options of today. *note, if given, says what became of it when it could not be taken over as
// it was; it stays empty otherwise. Equal kinds lose nothing: an average is scaled to another decay, a shorter window
// keeps the latest values. An average starts from a window's values, a window from an average; a constant has no past
// to give.
[[nodiscard]] ThresholdState restored(const SavedThreshold& saved, const ThresholdOptions& options, std::string* note);

}  // namespace spectralclip

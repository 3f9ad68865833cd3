// SPDX-License-Identifier: Apache-2.0
// Ranges that the options of several optimizers share.
#pragma once

#include <cmath>

#include "require.h"

namespace spectralclip::torch {

inline void require_not_negative(const char* option, double value) {
  SPECTRALCLIP_REQUIRE(value >= 0 && std::isfinite(value), option, " = ", value, " must be finite and >= 0");
}

inline void require_decay(const char* option, double value) {
  SPECTRALCLIP_REQUIRE(value >= 0 && value < 1, option, " = ", value, " must lie in [0, 1)");
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// Settings that are given by name but do nothing are a mistake: refused before anything runs.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace spectralclip::cli {

// Throws InvalidArgument: "clip.tau has no effect while clip.threshold = ema". `assignments`: key=value, or keys alone.
void require_effect(const lab::Config& config, const std::vector<std::string>& assignments);

}  // namespace spectralclip::cli

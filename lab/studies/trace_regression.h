// SPDX-License-Identifier: Apache-2.0
// Task "trace-regression": the paper's comparison of thresholds by the bias they cause. All methods of one seed advance
// together; step k is one iteration of each, and Delta_k is measured at X_k before the step is taken.
#pragma once

#include <memory>

#include "engine/experiment.h"

namespace spectralclip::lab {

[[nodiscard]] std::unique_ptr<Experiment> make_trace_regression(const Config& config);

}  // namespace spectralclip::lab

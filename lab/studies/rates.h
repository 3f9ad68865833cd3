// SPDX-License-Identifier: Apache-2.0
// Task "rates": do the measured rates of clipped SGD obey Theorems 1 and 2, and with what exponent of K? One step is
// one cell (method, theorem, K); the results are an exponent with its interval and the largest measured / bound.
#pragma once

#include <memory>

#include "engine/experiment.h"

namespace spectralclip::lab {

[[nodiscard]] std::unique_ptr<Experiment> make_rates(const Config& config);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// A sweep in words.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

[[nodiscard]] const Trial* best_trial(const Sweep& sweep);  // null when none finished
// "64 trials, 12 of them diverged or failed; smallest train_loss 0.0123 at optimizer.lr = 0.01, …"
[[nodiscard]] std::string describe(const Sweep& sweep);
// Its command; without one, where its definition is.
[[nodiscard]] std::vector<std::string> reproduce(const Sweep& sweep);

}  // namespace spectralclip::lab::report

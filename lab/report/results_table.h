// SPDX-License-Identifier: Apache-2.0
// Final results of each task as tables of the model and in words; the resolved settings behind them.
#pragma once

#include <string>
#include <vector>

#include "report/groups.h"

namespace spectralclip::lab::report {

// One row a group, best first: name, main result, val_loss, seeds, diverged, seconds, optimizer, clipping.
[[nodiscard]] Json results_table(const std::string& task, const std::vector<const Group*>& groups);

// {title, labels, differing: [[key, value…]…], same: [[key, value]…]}
[[nodiscard]] Json settings_table(const std::string& task, const std::vector<const Group*>& groups);

// What was run and what is best, a sentence or two.
[[nodiscard]] std::string results_text(const std::string& task, const std::vector<const Group*>& groups);

}  // namespace spectralclip::lab::report

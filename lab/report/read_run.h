// SPDX-License-Identifier: Apache-2.0
// One run directory and one sweep directory, read as far as they can be. What was skipped is said in `warnings`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

// `summary` is the content of its summary.json. Without `series` only that is used: enough for a table.
[[nodiscard]] Run read_run(const std::string& directory, const Json& summary, bool series,
                           std::vector<std::string>& warnings);

// The step of the last whole line of metrics.jsonl: how far a run is that has not said it; 0 when there is none.
[[nodiscard]] std::int64_t last_recorded_step(const std::string& directory);

// trials.jsonl, and summary.json when there is one (a sweep that still runs may have none). The run directories of
// single trials are looked into for `baseline_loss` alone: three hundred curves would show nothing.
[[nodiscard]] Sweep read_sweep(const std::string& directory, std::vector<std::string>& warnings);

}  // namespace spectralclip::lab::report

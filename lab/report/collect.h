// SPDX-License-Identifier: Apache-2.0
// Finds run directories (summary.json) and sweep directories (trials.jsonl, or a summary of kind "sweep") below the
// given ones, down to four levels, and reads them.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct CollectOptions {
  bool series = true;  // false: summaries only, for a table
};

// Runs in the order of the directories and, within one, by path. The re-runs of a sweep's best trial are runs, named
// "<sweep> (best)"; its trials are not. A directory that was met before is not read twice. Throws InvalidArgument,
// naming the directory, when one does not exist or has neither run nor sweep.
[[nodiscard]] Collection collect(const std::vector<std::string>& directories, const CollectOptions& options = {});

}  // namespace spectralclip::lab::report

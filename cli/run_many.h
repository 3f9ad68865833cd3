// SPDX-License-Identifier: Apache-2.0
// Several runs at once, each a process of its own, then their table.
#pragma once

#include <string>
#include <vector>

#include "config/source.h"

namespace spectralclip::cli {

struct RunJob {
  std::string source;  // preset or file
  lab::Resolved resolved;
  std::string directory;
};

struct RunManyOptions {
  std::vector<std::string> assignments;
  int jobs = 0;  // 0: as many as cores divided by the threads of a run
  bool resume = false;
  bool quiet = false;
  std::string root;  // folder of all of them
};

// What a task makes of the runs of all its seeds: the published CSV of trace regression.
void write_tables(const std::vector<RunJob>& jobs, const std::string& root);

[[nodiscard]] int run_many(const std::vector<RunJob>& jobs, const RunManyOptions& options);

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// Runs child processes, several at once. Knows nothing of sweeps.
//
// SIGINT and SIGTERM are passed on to the children as SIGTERM, and they are waited for: a run saves its state and ends
// by itself. The third such signal is passed on as SIGKILL. Each child has a process group of its own, so that Ctrl-C
// in a terminal reaches it through us alone, once.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spectralclip::lab {

struct Job {
  std::vector<std::string> command;  // program, arguments; a program without '/' is looked up in PATH
  std::string log_file;              // stdout and stderr, appended; its folder must exist. Empty: /dev/null
};

struct JobEnd {
  std::size_t index = 0;  // 0, 1, … in the order of starting
  int exit_code = 0;      // -1 when a signal ended it
  int signal = 0;
  double seconds = 0.0;
  bool interrupted = false;  // ended after we had been told to stop
};

enum class JobsOutcome { finished, interrupted };

struct JobsOptions {
  int max_parallel = 1;
  std::function<void()> on_tick = {};  // about once a second, for progress
};

// `next` is asked whenever a place is free; after it returned nothing it is asked once more after each end of a job,
// and all is over when it then has nothing and no job is left. Both callbacks run on the calling thread; if one throws,
// or a program cannot be started (InvalidArgument naming it), the running children are ended and waited for before the
// exception leaves.
[[nodiscard]] JobsOutcome run_jobs(const std::function<std::optional<Job>()>& next, const JobsOptions& options,
                                   const std::function<void(const JobEnd&)>& on_done);
[[nodiscard]] JobsOutcome run_jobs(const std::vector<Job>& jobs, const JobsOptions& options,
                                   const std::function<void(const JobEnd&)>& on_done);

// The last line of a file that is not blank, at most 500 characters of it; empty when there is none.
[[nodiscard]] std::string last_line(const std::string& path);

}  // namespace spectralclip::lab

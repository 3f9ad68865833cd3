// SPDX-License-Identifier: Apache-2.0
// Runs a sweep: trials are child processes of the command line tool, several at once; then the best one again over
// several seeds. Everything is on disk as soon as it is known, so a sweep that was stopped or killed, at any moment,
// goes on where it was: no trial is lost and none is repeated.
//
//   DIR/sweep.toml       the definition        DIR/trials/0007/   run directory of a trial
//   DIR/proposed.jsonl   before a trial        DIR/best/seed-1/   the best again
//   DIR/trials.jsonl     after it              DIR/summary.json   rewritten after every trial
//   DIR/lock             one process at a time
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sweep/definition.h"
#include "sweep/trial_log.h"

namespace spectralclip::lab {

enum class SweepPhase { trials, best };

struct SweepProgress {
  SweepPhase phase = SweepPhase::trials;
  std::int64_t done = 0;  // trials, or runs of the best
  std::int64_t total = 0;
  std::int64_t running = 0;
  std::int64_t diverged = 0;  // of the trials done
  std::int64_t refused = 0;
  std::int64_t failed = 0;  // and not ended since
  std::optional<Trial> best = {};
  double seconds = 0.0;      // since this process began
  std::string message = {};  // something to say beside the bar, or empty
};

struct SweepOptions {
  std::string directory;
  int jobs = 1;  // trials at once
  bool resume = false;
  std::string program;                 // the command line tool; a name without '/' is looked up in PATH
  std::vector<std::string> sets = {};  // "key=value", over the definition's own
  std::function<void(const SweepProgress&)> on_event = {};  // after every change and about once a second
};

struct BestRun {
  std::uint64_t seed = 1;
  TrialStatus status = TrialStatus::failed;
  std::optional<double> value = {};
};

// incomplete: some trials or runs of the best failed; resuming tries them again.
enum class SweepStatus { finished, interrupted, already_finished, incomplete };

struct SweepResult {
  SweepStatus status = SweepStatus::finished;
  std::int64_t done = 0;
  std::int64_t failed = 0;   // trials
  std::string failure = {};  // the last one's reason
  std::optional<Trial> best = {};
  std::vector<BestRun> best_runs = {};
};

// Throws InvalidArgument (a definition or options that make no sense, a program that cannot be started, a directory
// that holds a sweep when not resuming, holds none when resuming, or holds one that differs), StateFileError (damaged
// files, a directory in use) and Error (three trials in a row failed; with the last line of the third's log).
//
// A run that fails for a reason outside its configuration is tried twice, never told to the search, and left to the
// next
// --resume; what is found does not depend on the number of jobs.
// SIGINT and SIGTERM stop it as jobs.h says.
[[nodiscard]] SweepResult run_sweep(SweepDefinition definition, const SweepOptions& options);

}  // namespace spectralclip::lab

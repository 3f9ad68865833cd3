// SPDX-License-Identifier: Apache-2.0
// One trial as a process: its command line, and what its run directory says afterwards.
#pragma once

#include <optional>
#include <string>

#include "sweep/definition.h"
#include "sweep/jobs.h"
#include "sweep/trial_log.h"

namespace spectralclip::lab {

struct TrialOutcome {
  TrialStatus status = TrialStatus::failed;
  std::optional<double> value = {};  // of the metric, finite; only when finished
  double seconds = 0.0;              // of training, over resumes; of the process when the run does not say
  std::string message = {};          // refused, failed: why
};

inline constexpr int kExitRefused = 2, kExitDiverged = 3;

// `<program> run <preset> --set key=value … --seed S --out DIR --quiet`, with --resume when DIR holds a run already
// (an interrupted one is finished, not repeated). Its output goes to DIR/log.txt; the directory is made here.
[[nodiscard]] Job make_trial_job(const SweepDefinition& definition, const std::string& program, const Point& values,
                                 std::uint64_t seed, const std::string& directory);

// What DIR/summary.json says, if that run has come to its end (finished or diverged).
[[nodiscard]] std::optional<TrialOutcome> recorded_outcome(const std::string& directory, const std::string& metric);

// After the process: exit code 0 and a summary that says so: finished; 3: diverged; 2: refused; all else: failed.
[[nodiscard]] TrialOutcome outcome_of(const JobEnd& end, const std::string& directory, const std::string& metric);

// Whether a process is at work in DIR: holds its lock (record/lock.h).
[[nodiscard]] bool is_locked(const std::string& directory);

}  // namespace spectralclip::lab

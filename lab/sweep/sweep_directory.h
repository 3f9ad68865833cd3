// SPDX-License-Identifier: Apache-2.0
// Names and whole files of a sweep directory; the growing ones are trial_log.h's.
#pragma once

#include <string>
#include <vector>

#include "sweep/sweep.h"

namespace spectralclip::lab {

[[nodiscard]] std::string trial_directory(const std::string& directory, std::int64_t trial);  // …/trials/0007
// The same, or …/trials/0007/seed-2 where a trial has several seeds.
[[nodiscard]] std::string run_directory(const SweepDefinition& definition, const std::string& directory,
                                        std::int64_t trial, std::uint64_t seed);
[[nodiscard]] std::string best_directory(const std::string& directory, std::uint64_t seed);  // …/best/seed-1

// sweep.toml: written when there is none, else compared. Throws as run_sweep says.
void settle_definition(const SweepDefinition& definition, const std::string& directory, bool resume);

// best/trial.json says whose runs are in best/. Runs of another trial, from before the sweep got more trials, are moved
// to best-of-trial-0007.
void settle_best(const TrialLog& log, const std::string& directory);

// Seeds of the best once more: those after the trials' own.
[[nodiscard]] std::vector<std::uint64_t> unseen_seeds(const SweepDefinition& definition);
// The runs of the best so far; those that have not ended are missing.
[[nodiscard]] std::vector<BestRun> recorded_best_runs(const SweepDefinition& definition, const TrialLog& log,
                                                      const std::string& directory);

// Trials that failed and have not ended since.
[[nodiscard]] std::int64_t failed_trials(const TrialLog& log);

// status: running, stopped, incomplete (trials failed), finished.
void write_summary(const SweepDefinition& definition, const TrialLog& log, const std::vector<BestRun>& best_runs,
                   const char* status, const std::string& directory);

}  // namespace spectralclip::lab

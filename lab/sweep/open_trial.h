// SPDX-License-Identifier: Apache-2.0
// A trial that has not ended, and what its runs make of it.
#pragma once

#include <cstdint>
#include <map>

#include "sweep/trial_log.h"
#include "sweep/trial_run.h"

namespace spectralclip::lab {

struct RunKey {
  std::int64_t trial = 0;
  std::uint64_t seed = 1;
};

struct OpenTrial {
  Candidate candidate;
  std::map<std::uint64_t, TrialOutcome> runs = {};  // ended ones, by seed
  int failures = 0;                                 // attempts that say nothing of the configuration
};

// The mean over the seeds, in their order; without a value as soon as one run has none.
[[nodiscard]] Trial combined(const OpenTrial& open, std::uint64_t first_seed);

}  // namespace spectralclip::lab

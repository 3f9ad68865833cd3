// SPDX-License-Identifier: Apache-2.0
#include "sweep/open_trial.h"

namespace spectralclip::lab {

Trial combined(const OpenTrial& open, std::uint64_t first_seed) {
  Trial trial{.candidate = open.candidate, .seed = first_seed};
  double sum = 0;
  for (const auto& [seed, run] : open.runs) {
    trial.seconds += run.seconds;
    if (trial.status != TrialStatus::finished) continue;
    trial.status = run.status;
    trial.message = run.message;
    if (!run.value) continue;
    trial.by_seed.push_back(*run.value);
    sum += *run.value;
  }
  if (trial.status == TrialStatus::finished) trial.value = sum / static_cast<double>(trial.by_seed.size());
  if (trial.status != TrialStatus::finished || trial.by_seed.size() == 1) trial.by_seed.clear();
  return trial;
}

}  // namespace spectralclip::lab

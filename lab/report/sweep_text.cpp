// SPDX-License-Identifier: Apache-2.0
#include "report/sweep_text.h"

#include <fmt/core.h>

#include <cmath>

namespace spectralclip::lab::report {

const Trial* best_trial(const Sweep& sweep) {
  const Trial* best = nullptr;
  for (const Trial& trial : sweep.trials)
    if (std::isfinite(trial.value) &&
        (!best || (sweep.larger_is_better ? trial.value > best->value : trial.value < best->value)))
      best = &trial;
  return best;
}

std::string describe(const Sweep& sweep) {
  std::size_t lost = 0;
  for (const Trial& trial : sweep.trials) lost += !std::isfinite(trial.value);
  const auto done = static_cast<std::int64_t>(sweep.trials.size());
  std::string text = done < sweep.planned ? fmt::format("{} of {} trials so far", done, sweep.planned)
                                          : fmt::format("{} trial{}", done, done == 1 ? "" : "s");
  if (lost > 0) text += fmt::format(", {} of them diverged or failed", lost);
  const Trial* best = best_trial(sweep);
  if (!best) return text + "; none gave a value.";
  text += fmt::format("; {} {} {:.4g}, trial {}", sweep.larger_is_better ? "largest" : "smallest", sweep.metric,
                      best->value, best->number);
  std::string place;
  for (const auto& [key, value] : best->values)
    place += fmt::format("{}{} = {:.4g}", place.empty() ? " at " : ", ", key, value);
  return text + place + ".";
}

std::vector<std::string> reproduce(const Sweep& sweep) {
  if (!sweep.command.empty()) return {sweep.command};
  return {fmt::format("spectralclip sweep {}/sweep.toml", sweep.directory)};
}

}  // namespace spectralclip::lab::report

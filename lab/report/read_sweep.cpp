// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "report/jsonl.h"
#include "report/read_run.h"

namespace spectralclip::lab::report {
namespace {

Trial trial_of(const Json& line) {
  Trial trial;
  trial.number = static_cast<std::int64_t>(number_in(line, "trial", -1));
  trial.status = text_in(line, "status", "failed");
  trial.seconds = number_in(line, "seconds");
  if (trial.status == "finished") trial.value = number_in(line, "value");
  if (!std::isfinite(trial.value) && trial.status == "finished") trial.status = "diverged";
  if (const auto values = line.find("values"); values != line.end() && values->is_object())
    for (const auto& [key, value] : values->items())
      if (value.is_number()) trial.values.emplace_back(key, value.get<double>());
  return trial;
}

// A trial that was run again after an interruption has two lines; the later one counts.
std::vector<Trial> read_trials(const std::string& path, std::vector<std::string>& warnings) {
  std::map<std::int64_t, Trial> trials;
  const LineCounts counts = for_each_line(path, [&](const Json& line) {
    Trial trial = trial_of(line);
    trials[trial.number] = std::move(trial);
  });
  if (counts.damaged > 0)
    warnings.push_back(
        fmt::format("{}: {} damaged line{} skipped", path, counts.damaged, counts.damaged == 1 ? " was" : "s were"));
  std::vector<Trial> in_order;
  for (auto& [number, trial] : trials) in_order.push_back(std::move(trial));
  return in_order;
}

std::vector<SearchAxis> space_in(const Json& summary) {
  std::vector<SearchAxis> space;
  const auto found = summary.find("space");
  if (found == summary.end() || !found->is_array()) return space;
  for (const Json& axis : *found)
    if (axis.is_object()) space.push_back({text_in(axis, "key"), text_in(axis, "scale") == "log"});
  return space;
}

// Without a summary: the keys of the first trial; logarithmic when all values are positive and span more than a decade.
std::vector<SearchAxis> space_from(const std::vector<Trial>& trials) {
  std::vector<SearchAxis> space;
  if (trials.empty()) return space;
  for (const auto& [key, first] : trials.front().values) {
    double low = first, high = first;
    for (const Trial& trial : trials)
      if (const double* value = find(trial.values, key)) {
        low = std::min(low, *value);
        high = std::max(high, *value);
      }
    space.push_back({key, low > 0 && high > 10 * low});
  }
  return space;
}

// The first trial that says it: all trials of one sweep see the same data.
double baseline_of(const std::string& directory, const std::vector<Trial>& trials) {
  for (const Trial& trial : trials) {
    const auto summary = read_object(fmt::format("{}/trials/{:04}/summary.json", directory, trial.number));
    if (!summary || !summary->contains("results")) continue;
    const double baseline = number_in((*summary)["results"], "baseline_loss");
    if (std::isfinite(baseline)) return baseline;
  }
  return kNothing;
}

std::string last_name_in(const std::string& directory) {
  std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

Sweep read_sweep(const std::string& directory, std::vector<std::string>& warnings) {
  Sweep sweep;
  sweep.directory = directory;
  const Json summary = read_object(directory + "/summary.json").value_or(Json::object());
  sweep.trials = read_trials(directory + "/trials.jsonl", warnings);
  sweep.name = text_in(summary, "name", last_name_in(directory));
  sweep.search = text_in(summary, "search", "unfinished");
  sweep.metric = text_in(summary, "metric", "value");
  sweep.larger_is_better = text_in(summary, "better") == "larger";
  sweep.command = text_in(summary, "command");
  sweep.planned = static_cast<std::int64_t>(number_in(summary, "trials", static_cast<double>(sweep.trials.size())));
  sweep.space = space_in(summary);
  if (sweep.space.empty()) sweep.space = space_from(sweep.trials);
  sweep.baseline = number_in(summary, "baseline_loss");
  if (!std::isfinite(sweep.baseline)) sweep.baseline = baseline_of(directory, sweep.trials);
  return sweep;
}

}  // namespace spectralclip::lab::report

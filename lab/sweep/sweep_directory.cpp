// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "clipper/atomic_file.h"
#include "spectralclip/error.h"
#include "sweep/trial_run.h"

namespace spectralclip::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// 0: best/ holds nothing that we know of.
std::int64_t trial_in_best(const std::string& directory) {
  std::ifstream file(directory + "/best/trial.json");
  const Json trial = file ? Json::parse(file, nullptr, false) : Json();
  return trial.is_object() ? trial.value("trial", std::int64_t{0}) : 0;
}

Json space_json(const SearchSpace& space) {
  Json axes = Json::array();
  for (const Axis& axis : space) {
    Json entry = {{"key", axis.key}, {"low", axis.low}, {"high", axis.high}};
    entry["scale"] = axis.scale == Scale::log ? "log" : "linear";
    if (axis.points > 0) entry["points"] = axis.points;
    axes.push_back(entry);
  }
  return axes;
}

Json best_runs_json(const std::vector<BestRun>& runs) {
  Json list = Json::array();
  for (const BestRun& run : runs) {
    const Json value = run.value ? Json(*run.value) : Json(nullptr);
    list.push_back({{"seed", run.seed}, {"status", name_of(run.status)}, {"value", value}});
  }
  return list;
}

}  // namespace

std::string trial_directory(const std::string& directory, std::int64_t trial) {
  return fmt::format("{}/trials/{:04}", directory, trial);
}

std::string run_directory(const SweepDefinition& definition, const std::string& directory, std::int64_t trial,
                          std::uint64_t seed) {
  const std::string folder = trial_directory(directory, trial);
  return definition.seeds == 1 ? folder : fmt::format("{}/seed-{}", folder, seed);
}

std::vector<std::uint64_t> unseen_seeds(const SweepDefinition& definition) {
  std::vector<std::uint64_t> seeds;
  const std::uint64_t first = definition.seed + static_cast<std::uint64_t>(definition.seeds);
  for (std::int64_t i = 0; i < definition.best_seeds; ++i) seeds.push_back(first + static_cast<std::uint64_t>(i));
  return seeds;
}

std::string best_directory(const std::string& directory, std::uint64_t seed) {
  return fmt::format("{}/best/seed-{}", directory, seed);
}

void settle_definition(const SweepDefinition& definition, const std::string& directory, bool resume) {
  const std::string path = directory + "/sweep.toml";
  const bool present = fs::exists(path);
  if (present && !resume)
    throw InvalidArgument(directory + " holds a sweep already: resume it, or choose another directory");
  if (!present && resume) throw InvalidArgument(directory + " holds no sweep to resume (no sweep.toml)");
  if (present) {
    const SweepDefinition before = parse_sweep(read_text(path), definition.name);
    if (const auto difference = first_difference(before, definition))
      throw InvalidArgument(fmt::format("{} holds another sweep: {}", directory, *difference));
  }
  write_text_atomically(path, to_toml(definition));
}

void settle_best(const TrialLog& log, const std::string& directory) {
  const Trial* best = log.best();
  if (best == nullptr) return;
  const std::int64_t there = trial_in_best(directory);
  if (there == best->candidate.trial) return;
  if (there != 0) fs::rename(directory + "/best", fmt::format("{}/best-of-trial-{:04}", directory, there));
  fs::create_directories(directory + "/best");
  write_text_atomically(directory + "/best/trial.json", log.json_of(*best).dump(2) + "\n");
}

std::vector<BestRun> recorded_best_runs(const SweepDefinition& definition, const TrialLog& log,
                                        const std::string& directory) {
  std::vector<BestRun> runs;
  const Trial* best = log.best();
  if (best == nullptr || trial_in_best(directory) != best->candidate.trial) return runs;
  for (const std::uint64_t seed : unseen_seeds(definition)) {
    if (const auto outcome = recorded_outcome(best_directory(directory, seed), definition.metric))
      runs.push_back({seed, outcome->status, outcome->value});
  }
  return runs;
}

std::int64_t failed_trials(const TrialLog& log) {
  std::set<std::int64_t> failed;
  for (const Trial& attempt : log.failures())
    if (!log.has_ended(attempt.candidate.trial)) failed.insert(attempt.candidate.trial);
  return std::ssize(failed);
}

void write_summary(const SweepDefinition& definition, const TrialLog& log, const std::vector<BestRun>& best_runs,
                   const char* status, const std::string& directory) {
  std::array<std::int64_t, 4> counts{};
  for (const Trial& trial : log.trials()) ++counts.at(static_cast<std::size_t>(trial.status));
  const Trial* best = log.best();
  Json summary = {{"kind", "sweep"},
                  {"status", status},
                  {"name", definition.name},
                  {"preset", definition.preset},
                  {"search", name_of(definition.search)},
                  {"trials", definition.trials},
                  {"done", log.trials().size()},
                  {"diverged", counts[1]},
                  {"refused", counts[2]},
                  {"failed", failed_trials(log)},
                  {"metric", definition.metric},
                  {"better", definition.larger_is_better ? "larger" : "smaller"},
                  {"seeds", definition.seeds}};
  if (!log.failures().empty()) summary["last_failure"] = log.failures().back().message;
  summary["best"] = best == nullptr ? Json(nullptr) : log.json_of(*best);
  summary["best_runs"] = best_runs_json(best_runs);
  summary["space"] = space_json(definition.space);
  write_text_atomically(directory + "/summary.json", summary.dump(2) + "\n");
}

}  // namespace spectralclip::lab

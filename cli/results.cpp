// SPDX-License-Identifier: Apache-2.0
// `spectralclip results DIR`: a table of runs for a document, as Markdown: the main result over seeds, the time of
// training and the clip's share of it, what the clipper promised and what came of it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "clipper/atomic_file.h"
#include "commands.h"
#include "report/collect.h"
#include "report/groups.h"

namespace spectralclip::cli {
namespace {

using lab::report::Group;
using lab::report::Json;

// Sums over the runs of a group of what their summaries say beside results.
struct Notes {
  double train_seconds = 0, clip_share = 0;
  std::int64_t layer_steps = 0, unsure = 0, checked = 0, missed = 0;
  std::map<std::string, std::int64_t> reasons;  // "layer: status" -> steps
};

Notes notes_of(const Group& group) {
  Notes notes;
  for (const lab::report::Run* run : group.runs) {
    const Json summary = Json::parse(read_text(run->directory + "/summary.json"), nullptr, false);
    if (!summary.is_object()) continue;
    const Json timing = summary.value("timing", Json::object()), said = summary.value("certificate", Json::object());
    const auto runs = static_cast<double>(group.runs.size());
    notes.train_seconds += timing.value("train_seconds", 0.0) / runs;
    notes.clip_share += timing.value("clip_share", 0.0) / runs;
    notes.layer_steps += said.value("layer_steps", std::int64_t{0});
    notes.unsure += said.value("unsure", std::int64_t{0});
    notes.checked += said.value("checked", std::int64_t{0});
    notes.missed += said.value("missed", std::int64_t{0});
    const Json unsure = said.value("unsure_by_layer", Json::object());  // kept: items() borrows it
    for (const auto& [layer, reasons] : unsure.items())
      for (const auto& [reason, steps] : reasons.items())
        notes.reasons[layer + ": " + reason] += steps.get<std::int64_t>();
  }
  return notes;
}

std::string certificate_text(const Notes& notes) {
  if (notes.layer_steps == 0) return "–";
  return fmt::format("{} of {}; {} of {}", notes.unsure, notes.layer_steps, notes.missed, notes.checked);
}

void print_task(const std::string& task, const std::vector<const Group*>& groups) {
  fmt::print("\n## {}\n\n", task);
  fmt::print(
      "| run | {} | best on the way | seeds | diverged | steps | training, s | clip's share | unsure; missed |\n",
      groups.front()->main_result);
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
  for (const Group* group : lab::report::ranked(groups)) {
    const Notes notes = notes_of(*group);
    std::vector<double> best;
    for (const lab::report::Run* run : group->runs)
      best.push_back(lab::report::result_of(*run, "best_" + group->main_result));
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.3g} | {:.2g} % | {} |\n", group->label,
               lab::report::spread(group->main), lab::report::spread(lab::report::statistic(best)), group->runs.size(),
               group->diverged, group->runs.front()->steps, notes.train_seconds, 100 * notes.clip_share,
               certificate_text(notes));
  }
  for (const Group* group : groups) {
    const Notes notes = notes_of(*group);
    for (const auto& [reason, steps] : notes.reasons)
      fmt::print("\n{}: not sure in {} layer-steps of {}", group->label, steps, reason);
  }
  fmt::print("\n\nEach run again, and each other seed (`--seed`):\n\n");
  for (const Group* group : groups) fmt::print("    {}\n", group->runs.front()->command);
}

}  // namespace

void add_results(CLI::App& program, int& status) {
  auto* command =
      program.add_subcommand("results", "a table of runs as Markdown: results, time, what the clipper promised");
  auto directories = std::make_shared<std::vector<std::string>>();
  command->add_option("DIR", *directories, "run directories, or folders of them")->required();
  command->callback([&status, directories] {
    const auto found = lab::report::collect(*directories, {.series = false});
    const std::vector<Group> groups = lab::report::make_groups(found.runs);
    for (const std::string& task : lab::report::tasks_of(groups))
      print_task(task, lab::report::groups_of(groups, task));
    status = kDone;
  });
}

}  // namespace spectralclip::cli

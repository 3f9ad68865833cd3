// SPDX-License-Identifier: Apache-2.0
#include "report/model.h"

#include <fmt/core.h>

#include "report/figures.h"
#include "report/groups.h"
#include "report/results_table.h"
#include "report/sweep_text.h"

namespace spectralclip::lab::report {
namespace {

void add_task(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  if (task == "trace-regression") return add_trace_figures(parts, groups);
  add_rate_figures(parts, groups);  // by their lines: any task may have them
  if (task != "rates") add_training_figures(parts, task, groups);
  add_layer_figures(parts, task, groups);
}

std::string version_of(const std::vector<Run>& runs) {
  for (const Run& run : runs)
    if (!run.version.empty()) return run.version;
  return "";
}

}  // namespace

Json make_model(const Collection& collection, const ModelText& text) {
  const std::vector<Group> groups = make_groups(collection.runs);
  Json summary = Json::array(), tables = Json::array(), settings = Json::array();
  ModelParts parts;
  for (const std::string& task : tasks_of(groups)) {
    const std::vector<const Group*> of_task = ranked(groups_of(groups, task));  // the best first
    summary.push_back(results_text(task, of_task));
    tables.push_back(results_table(task, of_task));
    settings.push_back(settings_table(task, of_task));
    add_task(parts, task, of_task);
  }
  for (const Sweep& sweep : collection.sweeps)
    summary.push_back(fmt::format("Sweep {} ({}): {}", sweep.name, sweep.search, describe(sweep)));
  add_grid_figures(parts, collection.sweeps);
  add_sweep_figures(parts, collection.sweeps);
  return {{"title", text.title},
          {"command", text.command},
          {"version", version_of(collection.runs)},
          {"summary", std::move(summary)},
          {"warnings", collection.warnings},
          {"counts", {{"runs", collection.runs.size()}, {"sweeps", collection.sweeps.size()}}},
          {"tables", std::move(tables)},
          {"settings", std::move(settings)},
          {"series", std::move(parts.series)},
          {"figures", std::move(parts.figures)}};
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
#include "report/results_table.h"

#include <fmt/core.h>

#include <set>

#include "report/model_parts.h"

namespace spectralclip::lab::report {
namespace {

bool shows_validation(const std::vector<const Group*>& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const Group* group) {
    return group->validation.count > 0 && group->main_result != "val_loss";
  });
}

bool shows_unfinished(const std::vector<const Group*>& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const Group* group) { return group->unfinished > 0; });
}

std::vector<std::string> columns_of(const std::vector<const Group*>& groups) {
  const std::string& main = groups.front()->main_result;
  std::vector<std::string> columns = {"name", main.empty() ? "main result" : main};
  if (shows_validation(groups)) columns.push_back("val_loss");
  columns.insert(columns.end(), {"seeds", "diverged"});
  if (shows_unfinished(groups)) columns.push_back("unfinished");
  columns.push_back("seconds");
  return columns;
}

// Settings fold away below the table, which fits a laptop without them.
Json row_of(const Group& group, const std::vector<const Group*>& groups) {
  Json row = Json::array({make_cell(group.label), make_cell(spread(group.main), group.main.mean)});
  if (shows_validation(groups)) row.push_back(make_cell(spread(group.validation), group.validation.mean));
  const auto seeds = group.runs.size();
  row.push_back(make_cell(fmt::format("{}", seeds), static_cast<double>(seeds)));
  row.push_back(make_cell(fmt::format("{}", group.diverged), group.diverged));
  if (shows_unfinished(groups)) row.push_back(make_cell(fmt::format("{}", group.unfinished), group.unfinished));
  const std::string seconds = group.seconds.count > 0 ? fmt::format("{:.3g}", group.seconds.mean) : "–";
  row.push_back(make_cell(seconds, group.seconds.mean));
  return row;
}

std::string seeds_text(const std::vector<const Group*>& groups) {
  std::set<std::uint64_t> seeds;
  for (const Group* group : groups)
    for (const Run* run : group->runs) seeds.insert(run->seed);
  if (seeds.size() == 1) return fmt::format("seed {}", *seeds.begin());
  if (*seeds.rbegin() - *seeds.begin() + 1 == seeds.size())
    return fmt::format("seeds {} to {}", *seeds.begin(), *seeds.rbegin());
  return counted(seeds.size(), "seed");
}

// Who is best, by how much, over how many seeds, and whether the seeds settle it.
std::string verdict(const Group& best, const std::vector<const Group*>& groups) {
  const bool larger = best.larger_is_better;
  const std::string seeds = counted(static_cast<std::size_t>(best.main.count), "seed");
  std::string text = fmt::format("{} {}: {} with {} over {}", best.larger_is_better ? "Largest" : "Smallest",
                                 best.main_result, best.label, spread(best.main), seeds);
  for (const Group* next : ranked(groups)) {
    const bool before = larger ? next->main.mean > best.main.mean : next->main.mean < best.main.mean;
    if (next == &best || next->main.count == 0 || before) continue;
    text += fmt::format("; next {} with {}", next->label, spread(next->main));
    if (best.main.mean > 0) text += fmt::format(", {:.3g} times as much", next->main.mean / best.main.mean);
    if (best.main.count < 2 || next->main.count < 2) return text + ". One seed does not settle it.";
    const bool overlap = larger ? next->main.high >= best.main.low : best.main.high >= next->main.low;
    if (overlap) return text + ". Their seeds overlap: they do not settle it.";
    return text + fmt::format(". Every seed of the first is {} every seed of the second.", larger ? "above" : "below");
  }
  return text + ".";
}

}  // namespace

Json results_table(const std::string& task, const std::vector<const Group*>& groups) {
  Json rows = Json::array();
  for (const Group* group : ranked(groups)) rows.push_back(row_of(*group, groups));
  Json table = make_table(columns_of(groups), std::move(rows));
  table["id"] = "results-" + id_of(task);
  table["part"] = task;
  const Group* best = groups.size() > 1 ? best_of(groups) : nullptr;
  table["best"] = best ? Json(best->label) : Json(nullptr);
  table["caption"] = "Mean ± sample deviation over the seeds that finished. Click on a heading to sort.";
  if (best)
    table["caption"] = table["caption"].get<std::string>() + " Best: the " +
                       (best->larger_is_better ? "largest" : "smallest") +
                       " mean among those of which no seed diverged, if there is one.";
  return table;
}

Json settings_table(const std::string& task, const std::vector<const Group*>& groups) {
  const std::vector<std::string> differing = differing_settings(groups);
  std::set<std::string> keys;
  Json labels = Json::array(), rows = Json::array(), same = Json::array();
  for (const Group* group : groups) {
    labels.push_back(group->label);
    for (const auto& [key, value] : group->settings()) keys.insert(key);
  }
  const auto value_in = [](const Group* group, const std::string& key) {
    const auto found = group->settings().find(key);
    return found == group->settings().end() ? std::string("–") : found->second;
  };
  for (const std::string& key : differing) {
    Json row = Json::array({key});
    for (const Group* group : groups) row.push_back(value_in(group, key));
    rows.push_back(std::move(row));
    keys.erase(key);
  }
  for (const std::string& key : keys)
    if (key != "seed" && key != "name") same.push_back({key, value_in(groups.front(), key)});
  return {{"part", task}, {"labels", labels}, {"differing", rows}, {"same", same}};
}

std::string results_text(const std::string& task, const std::vector<const Group*>& groups) {
  std::size_t runs = 0;
  int diverged = 0, unfinished = 0;
  for (const Group* group : groups) {
    runs += group->runs.size();
    diverged += group->diverged;
    unfinished += group->unfinished;
  }
  std::string text = fmt::format("{}: {} of {}, {}", task, counted(runs, "run"),
                                 counted(groups.size(), "configuration"), seeds_text(groups));
  if (diverged > 0) text += fmt::format("; {} diverged", diverged);
  if (unfinished > 0) text += fmt::format("; {} not finished", unfinished);
  text += ".";
  const Group* best = best_of(groups);
  if (!best || groups.size() < 2) {
    if (best) text += fmt::format(" {}: {}.", best->main_result, spread(best->main));
    return text;
  }
  return text + " " + verdict(*best, groups);
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Runs that differ in nothing but the seed form a group: one curve, one row of a table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

// Over the finite ones of some numbers; NaN when there is none. `deviation`: sample deviation, 0 for one number.
struct Statistic {
  int count = 0;
  double mean = kNothing, deviation = kNothing, low = kNothing, high = kNothing;
};
[[nodiscard]] Statistic statistic(std::span<const double> numbers);

struct Group {
  // Both unique among the groups of all tasks. `name`: of the preset or file, with what tells it from its namesakes,
  // for whoever will type it. `label`, for curves: "SGDM, spectral quantile" where that tells a group from the others
  // of its task, else the name.
  std::string name, label;
  std::string task;
  std::string main_result;
  bool larger_is_better = false;  // of the main result
  std::vector<const Run*> runs;
  std::size_t style = 0;  // place in the ranking of its task; the best has 0
  int diverged = 0;
  int unfinished = 0;    // neither finished nor diverged: their results count nowhere
  Statistic main;        // of the main result over finished runs
  Statistic validation;  // of val_loss
  Statistic seconds;

  [[nodiscard]] const std::map<std::string, std::string>& settings() const { return runs.front()->settings; }
};

// In order of first appearance. The runs are borrowed.
[[nodiscard]] std::vector<Group> make_groups(const std::vector<Run>& runs);

// Tasks in order of first appearance, and the groups of one.
[[nodiscard]] std::vector<std::string> tasks_of(const std::vector<Group>& groups);
[[nodiscard]] std::vector<const Group*> groups_of(const std::vector<Group>& groups, const std::string& task);

// By mean main result, the best first; groups without one last.
[[nodiscard]] std::vector<const Group*> ranked(std::vector<const Group*> groups);

// The best mean among groups of which no seed diverged, or among all when there is no such group.
[[nodiscard]] const Group* best_of(const std::vector<const Group*>& groups);

// Keys whose value is not the same in all groups (absent is a value), without those that cannot change a result.
[[nodiscard]] std::vector<std::string> differing_settings(const std::vector<const Group*>& groups);

[[nodiscard]] double result_of(const Run& run, const std::string& key);
// "0.0123 ± 0.0004", "0.0123" for one run, "–" for none.
[[nodiscard]] std::string spread(const Statistic& statistic);

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
#include "report/groups.h"

#include <fmt/core.h>

#include <cmath>
#include <set>

#include "report/jsonl.h"

namespace spectralclip::lab::report {
namespace {

constexpr double kRounding = 1e-12;  // of a mean of equal numbers: no spread to report

// Keys that say who runs or what is written, not what is computed.
bool is_bookkeeping(const std::string& key) {
  return key == "seed" || key == "name" || key == "threads" || key == "task" || key.starts_with("record.");
}

std::map<std::string, std::string> computing(const std::map<std::string, std::string>& settings) {
  std::map<std::string, std::string> kept;
  for (const auto& [key, value] : settings)
    if (!is_bookkeeping(key)) kept.emplace(key, value);
  return kept;
}

bool belongs(const Group& group, const Run& run) {
  const Run& first = *group.runs.front();
  return first.task == run.task && first.name == run.name && computing(first.settings) == computing(run.settings);
}

std::string value_of(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "–" : found->second;
}

Statistic statistic_of(const std::vector<const Run*>& runs, const std::string& key) {
  std::vector<double> numbers;
  for (const Run* run : runs)
    if (run->status == "finished") numbers.push_back(result_of(*run, key));
  return statistic(numbers);
}

void fill_statistics(Group& group) {
  std::vector<double> seconds;
  for (const Run* run : group.runs) {
    group.diverged += run->status == "diverged";
    group.unfinished += run->status != "diverged" && run->status != "finished";
    if (group.main_result.empty()) group.main_result = run->main_result;
    seconds.push_back(run->seconds);
  }
  group.main = statistic_of(group.runs, group.main_result);
  group.validation = statistic_of(group.runs, "val_loss");
  group.seconds = statistic(seconds);
}

// At most three settings: a label must fit a legend.
std::string distinction(const Group& group, const std::vector<std::string>& keys) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, keys.size()); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ", keys[i], value_of(group.settings(), keys[i]));
  return keys.size() > 3 ? text + ", …" : text;
}

std::string spelled(const std::string& kind) {
  static const std::map<std::string, std::string> names = {
      {"sgd", "SGD"},   {"sgdm", "SGDM"},       {"adam", "Adam"},        {"adamw", "AdamW"},
      {"muon", "Muon"}, {"ema", "EMA"},         {"global_norm", "norm"}, {"layer_norm", "norm of each layer"},
      {"agc", "AGC"},   {"none", "no clipping"}};
  const auto found = names.find(kind);
  return found == names.end() ? kind : found->second;
}

// "SGDM, spectral quantile"; empty where the settings do not say.
std::string method_of(const Group& group) {
  const auto& settings = group.settings();
  const auto optimizer = settings.find("optimizer.kind"), clip = settings.find("clip.kind");
  if (optimizer == settings.end() || clip == settings.end()) return {};
  std::string method = spelled(optimizer->second) + ", " + spelled(clip->second);
  const auto threshold = settings.find("clip.threshold");
  if (clip->second == "spectral" && threshold != settings.end()) method += " " + spelled(threshold->second);
  return method;
}

// The best first and then by rank: what is best is drawn dark and solid, on every page.
void style_groups(std::vector<Group>& groups) {
  for (const std::string& task : tasks_of(groups)) {
    const std::vector<const Group*> of_task = groups_of(groups, task);
    const Group* const best = best_of(of_task);
    std::size_t style = best == nullptr ? 0 : 1;
    for (const Group* group : ranked(of_task)) {
      auto& own = groups[static_cast<std::size_t>(group - groups.data())];
      own.style = group == best ? 0 : style++;
    }
  }
}

void name_groups(std::vector<Group>& groups) {
  std::set<std::string> taken;
  for (Group& group : groups) {
    const std::string& name = group.runs.front()->name;
    std::vector<const Group*> namesakes;
    for (const Group& other : groups)
      if (other.task == group.task && other.runs.front()->name == name) namesakes.push_back(&other);
    const std::vector<std::string> keys = differing_settings(namesakes);
    group.name = keys.empty() ? name : fmt::format("{} [{}]", name, distinction(group, keys));
    const std::string wanted = group.name;
    for (int i = 2; !taken.insert(group.name).second; ++i) group.name = fmt::format("{} ({})", wanted, i);
  }
}

void label_groups(std::vector<Group>& groups) {
  std::map<std::string, int> methods;  // over all tasks
  for (const Group& group : groups) ++methods[method_of(group)];
  for (Group& group : groups) {
    const std::string method = method_of(group);
    const bool among_several = groups_of(groups, group.task).size() > 1;
    group.label = among_several && !method.empty() && methods[method] == 1 ? method : group.name;
  }
}

}  // namespace

Statistic statistic(std::span<const double> numbers) {
  Statistic result;
  double sum = 0, square = 0;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    result.low = result.count == 0 ? number : std::min(result.low, number);
    result.high = result.count == 0 ? number : std::max(result.high, number);
    sum += number;
    ++result.count;
  }
  if (result.count == 0) return result;
  result.mean = sum / result.count;
  for (const double number : numbers)
    if (std::isfinite(number)) square += (number - result.mean) * (number - result.mean);
  result.deviation = result.count > 1 ? std::sqrt(square / (result.count - 1)) : 0;
  if (result.deviation < kRounding * std::abs(result.mean)) result.deviation = 0;
  return result;
}

std::vector<Group> make_groups(const std::vector<Run>& runs) {
  std::vector<Group> groups;
  for (const Run& run : runs) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return belongs(one, run); });
    if (found != groups.end()) {
      found->runs.push_back(&run);
      continue;
    }
    Group& group = groups.emplace_back();
    group.task = run.task;
    group.main_result = run.main_result;
    const MetricInfo* info = find(run.metric_infos, run.main_result);
    group.larger_is_better = info != nullptr && info->larger_is_better;
    group.runs.push_back(&run);
  }
  for (Group& group : groups) fill_statistics(group);
  style_groups(groups);
  name_groups(groups);
  label_groups(groups);
  return groups;
}

std::vector<std::string> tasks_of(const std::vector<Group>& groups) {
  std::vector<std::string> tasks;
  for (const Group& group : groups)
    if (std::find(tasks.begin(), tasks.end(), group.task) == tasks.end()) tasks.push_back(group.task);
  return tasks;
}

std::vector<const Group*> groups_of(const std::vector<Group>& groups, const std::string& task) {
  std::vector<const Group*> chosen;
  for (const Group& group : groups)
    if (group.task == task) chosen.push_back(&group);
  return chosen;
}

std::vector<const Group*> ranked(std::vector<const Group*> groups) {
  const auto place = [](const Group* group) {
    return group->main.count == 0 ? HUGE_VAL : group->larger_is_better ? -group->main.mean : group->main.mean;
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const Group* a, const Group* b) { return place(a) < place(b); });
  return groups;
}

const Group* best_of(const std::vector<const Group*>& groups) {
  const Group* first = nullptr;
  for (const Group* group : ranked(groups)) {
    if (group->main.count == 0) continue;
    if (group->diverged == 0) return group;
    if (!first) first = group;
  }
  return first;
}

std::vector<std::string> differing_settings(const std::vector<const Group*>& groups) {
  std::set<std::string> keys;
  for (const Group* group : groups)
    for (const auto& [key, value] : group->settings())
      if (!is_bookkeeping(key)) keys.insert(key);
  std::vector<std::string> differing;
  for (const std::string& key : keys)
    for (const Group* group : groups)
      if (value_of(group->settings(), key) != value_of(groups.front()->settings(), key)) {
        differing.push_back(key);
        break;
      }
  return differing;
}

double result_of(const Run& run, const std::string& key) { return number_in(run.results, key); }

std::string spread(const Statistic& statistic) {
  if (statistic.count == 0) return "–";
  if (statistic.count == 1) return fmt::format("{:.4g}", statistic.mean);
  return fmt::format("{:.4g} ± {:.2g}", statistic.mean, statistic.deviation);
}

}  // namespace spectralclip::lab::report

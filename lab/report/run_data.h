// SPDX-License-Identifier: Apache-2.0
// What the report reads from run and sweep directories, as plain data. Numbers that a file gives as null are NaN.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spectralclip::lab::report {

using Json = nlohmann::ordered_json;
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// A map that keeps the order of first appearance: layers in model order, methods as the task lists them.
template <class Value>
using Named = std::vector<std::pair<std::string, Value>>;

template <class Value>
[[nodiscard]] const Value* find(const Named<Value>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.first == name; });
  return found == entries.end() ? nullptr : &found->second;
}

template <class Value>
[[nodiscard]] Value& find_or_add(Named<Value>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.first == name; });
  if (found != entries.end()) return found->second;
  return entries.emplace_back(std::string(name), Value{}).second;
}

// One key of metrics.jsonl: the lines that have it as a finite number. Three vectors of equal length.
struct MetricSeries {
  std::vector<double> step, seconds, value;
};

// One layer of layers.jsonl. `tau` is NaN where nothing was clipped at all.
struct LayerSeries {
  std::vector<double> step, sigma, tau;
  double steps = 0;  // of the last line
  double steps_clipped = 0;
  double unsettled = 0;  // lines whose status says that something above tau may remain
};

struct Spectrum {
  double step = 0;
  std::vector<double> before, after;
};

// One line of metrics.jsonl of task "rates": two estimates of what the theorem bounds, each with its interval.
struct RatePoint {
  std::string method, theorem;
  double K = kNothing, bound = kNothing;
  double measured = kNothing, low = kNothing, high = kNothing;
  double average = kNothing, average_low = kNothing, average_high = kNothing;
};

// What summary.json says of a metric.
struct MetricInfo {
  std::string label, unit;
  bool larger_is_better = false;
};

struct Run {
  std::string directory;
  std::string task, name, status, main_result, command, version;
  std::uint64_t seed = 0;
  double step = 0, steps = 0, seconds = kNothing;
  double diverged_at = kNothing;
  std::map<std::string, std::string> settings;
  Json results = Json::object();
  Named<MetricInfo> metric_infos;  // those that the task declares; the first is the main result
  Named<MetricSeries> metrics;
  Named<LayerSeries> layers;
  Named<std::vector<Spectrum>> spectra;
  std::vector<RatePoint> rates;
};

struct Trial {
  std::int64_t number = 0;
  Named<double> values;
  std::string status;
  double value = kNothing, seconds = kNothing;
};

struct SearchAxis {
  std::string key;
  bool log = false;
};

struct Sweep {
  std::string directory;
  std::string name, search, metric, command;
  std::int64_t planned = 0;
  bool larger_is_better = false;
  double baseline = kNothing;  // `baseline_loss` of the trials' results: the loss of predicting the mean
  std::vector<SearchAxis> space;
  std::vector<Trial> trials;  // by number
};

struct Collection {
  std::vector<Run> runs;
  std::vector<Sweep> sweeps;
  std::vector<std::string> warnings;
};

}  // namespace spectralclip::lab::report

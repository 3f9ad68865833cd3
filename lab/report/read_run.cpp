// SPDX-License-Identifier: Apache-2.0
#include "report/read_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "report/jsonl.h"
#include "sweep/jobs.h"
#include "sweep/trial_run.h"

namespace spectralclip::lab::report {
namespace {

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Reads one JSONL file of the run and says when lines of it were lost.
template <class Take>
void read_lines(const std::string& path, std::vector<std::string>& warnings, Take take) {
  const LineCounts counts = for_each_line(path, take);
  if (counts.damaged > 0)
    warnings.push_back(
        fmt::format("{}: {} damaged line{} skipped", path, counts.damaged, counts.damaged == 1 ? " was" : "s were"));
}

void take_rate(const Json& line, Run& run) {
  RatePoint point;
  point.method = text_in(line, "method");
  point.theorem = text_in(line, "theorem");
  if (const auto theorem = line.find("theorem"); theorem != line.end() && !theorem->is_string())
    point.theorem = text_of(*theorem);
  point.K = number_in(line, "K");
  point.measured = number_in(line, "measured");
  point.low = number_in(line, "low");
  point.high = number_in(line, "high");
  point.average = number_in(line, "average");
  point.average_low = number_in(line, "average_low");
  point.average_high = number_in(line, "average_high");
  point.bound = number_in(line, "bound");
  if (std::isfinite(point.K) && std::isfinite(point.measured)) run.rates.push_back(std::move(point));
}

void take_metrics(const Json& line, Run& run) {
  if (line.contains("method") && line.contains("K")) return take_rate(line, run);
  const double step = number_in(line, "step");
  if (!std::isfinite(step)) return;
  const double seconds = number_in(line, "seconds");
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || key == "seconds" || !value.is_number()) continue;
    MetricSeries& series = find_or_add(run.metrics, key);
    series.step.push_back(step);
    series.seconds.push_back(seconds);
    series.value.push_back(value.get<double>());
  }
}

// The objects of "layers" that have a name.
template <class Take>
void for_each_layer(const Json& line, Take take) {
  const auto layers = line.find("layers");
  const double step = number_in(line, "step");
  if (layers == line.end() || !layers->is_array() || !std::isfinite(step)) return;
  for (const Json& layer : *layers)
    if (layer.is_object() && !text_in(layer, "name").empty()) take(step, text_in(layer, "name"), layer);
}

void take_layers(const Json& line, Run& run) {
  for_each_layer(line, [&](double step, const std::string& name, const Json& layer) {
    LayerSeries& series = find_or_add(run.layers, name);
    series.step.push_back(step);
    series.sigma.push_back(number_in(layer, "sigma1"));
    series.tau.push_back(number_in(layer, "tau"));
    series.steps = number_in(layer, "steps", series.steps);
    series.steps_clipped = number_in(layer, "steps_clipped", series.steps_clipped);
    const std::string status = text_in(layer, "status");
    if (status == "not_converged" || status == "rank_exhausted") ++series.unsettled;
  });
}

std::vector<double> numbers_in(const Json& object, std::string_view key) {
  std::vector<double> numbers;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& value : *found) numbers.push_back(value.is_number() ? value.get<double>() : kNothing);
  return numbers;
}

void take_spectra(const Json& line, Run& run) {
  for_each_layer(line, [&](double step, const std::string& name, const Json& layer) {
    Spectrum spectrum{step, numbers_in(layer, "before"), numbers_in(layer, "after")};
    if (!spectrum.before.empty()) find_or_add(run.spectra, name).push_back(std::move(spectrum));
  });
}

std::map<std::string, std::string> settings_in(const Json& summary) {
  std::map<std::string, std::string> settings;
  const auto found = summary.find("settings");
  if (found == summary.end() || !found->is_object()) return settings;
  for (const auto& [key, value] : found->items()) settings.emplace(key, text_of(value));
  return settings;
}

// A run that was killed could not say so: it says "running", and nobody holds its lock.
void settle_status(Run& run) {
  if (run.status != "running") return;
  if (!is_locked(run.directory)) run.status = "interrupted";
  run.step = std::max(run.step, static_cast<double>(last_recorded_step(run.directory)));
}

// A line stands every log_every steps; says where some are missing, as after a file was cut or lost.
void warn_of_gaps(const Run& run, std::vector<std::string>& warnings) {
  const MetricSeries* const loss = find(run.metrics, "loss");
  const auto every = run.settings.find("record.log_every");
  if (every == run.settings.end() || run.step < 1) return;
  const double stride = std::atof(every->second.c_str());
  double last = 0;
  const auto check = [&](double step) {
    if (step - last > stride && stride >= 1)
      warnings.push_back(fmt::format("{}/metrics.jsonl: nothing between step {} and step {}: lines are missing",
                                     run.directory, last, step));
    last = step;
  };
  if (loss != nullptr) std::ranges::for_each(loss->step, check);
  if (run.status == "finished" || run.status == "stopped") check(run.step);
}

}  // namespace

std::int64_t last_recorded_step(const std::string& directory) {
  const Json line = Json::parse(last_line(directory + "/metrics.jsonl"), nullptr, false);
  return line.is_object() ? static_cast<std::int64_t>(number_in(line, "step", 0)) : 0;
}

Run read_run(const std::string& directory, const Json& summary, bool series, std::vector<std::string>& warnings) {
  Run run;
  run.directory = directory;
  run.task = text_in(summary, "task", "unknown task");
  run.name = text_in(summary, "name", run.task);
  if (run.name.empty()) run.name = run.task;
  run.status = text_in(summary, "status", "unknown");
  run.command = text_in(summary, "command");
  run.version = text_in(summary, "version");
  run.seed = static_cast<std::uint64_t>(std::max(0.0, number_in(summary, "seed", 0)));
  run.step = number_in(summary, "step", 0);
  run.steps = number_in(summary, "steps", 0);
  run.seconds = number_in(summary, "seconds");
  run.diverged_at = number_in(summary, "diverged_at");
  run.settings = settings_in(summary);
  if (const auto results = summary.find("results"); results != summary.end() && results->is_object())
    run.results = *results;
  run.main_result = text_in(summary, "main_result", run.results.empty() ? "" : run.results.begin().key());
  if (const auto metrics = summary.find("metrics"); metrics != summary.end() && metrics->is_array())
    for (const Json& metric : *metrics)
      find_or_add(run.metric_infos, text_in(metric, "name")) = {text_in(metric, "label"), text_in(metric, "unit"),
                                                                text_in(metric, "better") == "larger"};
  settle_status(run);
  if (!series) return run;
  read_lines(directory + "/metrics.jsonl", warnings, [&](const Json& line) { take_metrics(line, run); });
  warn_of_gaps(run, warnings);
  read_lines(directory + "/layers.jsonl", warnings, [&](const Json& line) { take_layers(line, run); });
  read_lines(directory + "/spectra.jsonl", warnings, [&](const Json& line) { take_spectra(line, run); });
  return run;
}

}  // namespace spectralclip::lab::report

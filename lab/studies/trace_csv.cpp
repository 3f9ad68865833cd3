// SPDX-License-Identifier: Apache-2.0
#include "studies/trace_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "clipper/atomic_file.h"
#include "require.h"
#include "studies/trace_method.h"

namespace spectralclip::lab {
namespace {

using Json = nlohmann::ordered_json;

struct TraceTable {
  std::string run;
  double sigma = 0;
  std::vector<std::int64_t> steps;
  std::vector<std::string> methods;
  std::vector<std::vector<double>> values;  // one column per method
};

Json parse(std::string_view text, const std::string& path) {
  Json value = Json::parse(text, nullptr, false);
  if (!value.is_object()) throw StateFileError(fmt::format("\"{}\" has a line that is no JSON object", path));
  return value;
}

double read_sigma(const std::string& run) {
  const std::string path = run + "/summary.json";
  const Json summary = parse(read_text(path), path);
  SPECTRALCLIP_REQUIRE(summary.value("task", "") == "trace-regression", "\"", run,
                       "\" is no run of trace-regression but of \"", summary.value("task", ""), "\"");
  const std::string text = summary.value("/settings/trace.sigma"_json_pointer, std::string());
  double sigma = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sigma);
  SPECTRALCLIP_REQUIRE(error == std::errc{} && end == text.data() + text.size() && !text.empty(), "\"", path,
                       "\": trace.sigma = \"", text, "\" is no number");
  return sigma;
}

double number_of(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

void add_line(TraceTable& table, const Json& line, const std::string& path) {
  if (table.methods.empty()) {
    for (const auto& [key, value] : line.items()) {
      if (key != "step" && key != "seconds") table.methods.push_back(key);
    }
    table.values.resize(table.methods.size());
  }
  if (!line.contains("step") || !line["step"].is_number_integer()) {
    throw StateFileError(fmt::format("\"{}\" has a line without a step", path));
  }
  table.steps.push_back(line["step"].get<std::int64_t>());
  for (std::size_t i = 0; i < table.methods.size(); ++i) {
    const auto found = line.find(table.methods[i]);
    table.values[i].push_back(found == line.end() ? std::numeric_limits<double>::quiet_NaN() : number_of(*found));
  }
}

TraceTable read_table(const std::string& run) {
  TraceTable table{.run = run, .sigma = read_sigma(run), .steps = {}, .methods = {}, .values = {}};
  const std::string path = run + "/metrics.jsonl";
  const std::string text = read_text(path);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) add_line(table, parse(std::string_view(text).substr(start, end - start), path), path);
    start = end + 1;
  }
  return table;
}

void require_alike(const TraceTable& first, const TraceTable& other) {
  SPECTRALCLIP_REQUIRE(first.sigma == other.sigma, "\"", other.run, "\" has sigma = ", other.sigma, ", \"", first.run,
                       "\" has ", first.sigma);
  SPECTRALCLIP_REQUIRE(first.methods == other.methods, "\"", other.run, "\" has other methods than \"", first.run,
                       "\"");
  SPECTRALCLIP_REQUIRE(first.steps == other.steps, "\"", other.run, "\" has other logged steps than \"", first.run,
                       "\"");
}

// mean, std, min, max of one cell over the seeds; empty when a seed has no finite value.
void append_statistics(std::string& out, std::span<const double> seeds) {
  const auto count = static_cast<double>(seeds.size());
  double mean = 0, squares = 0;
  for (const double x : seeds) mean += x / count;
  for (const double x : seeds) squares += (x - mean) * (x - mean) / count;
  const auto [low, high] = std::minmax_element(seeds.begin(), seeds.end());
  for (const double x : {mean, std::sqrt(squares), *low, *high}) {
    out += ',';
    if (std::isfinite(mean)) out += python_float(x);
  }
  out += '\n';
}

std::string csv_of(const std::vector<TraceTable>& tables) {
  std::string out = "method,iteration,mean,std,min,max\n";
  std::vector<double> seeds(tables.size());
  const TraceTable& first = tables.front();
  for (std::size_t method = 0; method < first.methods.size(); ++method) {
    for (std::size_t line = 0; line < first.steps.size(); ++line) {
      for (std::size_t seed = 0; seed < tables.size(); ++seed) seeds[seed] = tables[seed].values[method][line];
      out += fmt::format("{},{}", first.methods[method], first.steps[line] - 1);
      append_statistics(out, seeds);
    }
  }
  return out;
}

}  // namespace

std::string write_trace_csv(const std::vector<std::string>& runs, const std::string& folder) {
  SPECTRALCLIP_REQUIRE(!runs.empty(), "a table of trace regression needs at least one run directory");
  std::vector<TraceTable> tables;
  for (const std::string& run : runs) {
    tables.push_back(read_table(run));
    require_alike(tables.front(), tables.back());
  }
  const std::string text = csv_of(tables);
  const std::string path =
      fmt::format("{}/tracereg_sigma{}_seeds{}.csv", folder, python_float(tables.front().sigma), runs.size());
  write_text_atomically(path, text);
  return path;
}

}  // namespace spectralclip::lab

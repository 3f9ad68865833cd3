// SPDX-License-Identifier: Apache-2.0
// Everything measured ends as a list of findings: one Markdown table for the eye, one JSON file for the rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.h"

namespace spectralclip::bench {

struct Bar {
  double limit = 0;                 // must hold
  std::optional<double> goal = {};  // would be good
  bool at_least = false;            // otherwise at most
  [[nodiscard]] bool holds(double value) const { return at_least ? value >= limit : value <= limit; }
};

struct Finding {
  std::string what;
  int threads = 1;
  double value = 0;
  std::string unit = {};
  std::optional<Bar> bar = {};
  std::string note = {};
};

// Raw times of one contender, ms per round.
struct Series {
  std::string name;
  int threads = 1;
  std::vector<double> ms = {};
};

struct Results {
  Machine machine = describe_machine();
  std::string set = "none";
  std::vector<Finding> findings;
  std::vector<Series> series;
  std::vector<std::string> failures;  // of verification

  void add(Finding finding) { findings.push_back(std::move(finding)); }
  void require(bool condition, const std::string& what) {
    if (!condition) failures.push_back(what);
  }
};

inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

inline std::string bar_text(const Finding& finding) {
  if (!finding.bar) return "";
  std::string text = (finding.bar->at_least ? "≥ " : "≤ ") + number(finding.bar->limit);
  if (finding.bar->goal) text += " (goal " + number(*finding.bar->goal) + ")";
  return text;
}

inline std::string verdict(const Finding& finding) {
  if (!finding.bar) return "";
  if (!finding.bar->holds(finding.value)) return "missed";
  Bar goal = *finding.bar;
  if (goal.goal) goal.limit = *goal.goal;
  return finding.bar->goal && goal.holds(finding.value) ? "ok, goal" : "ok";
}

inline void print_markdown(const Results& results) {
  const Machine& machine = results.machine;
  std::printf("Machine: %s, %u hardware threads, load %s at start. Kernels: %s. %s, Eigen %s, spectralclip %s.\n",
              machine.cpu.c_str(), machine.hardware_threads, machine.load.c_str(), machine.simd.c_str(),
              machine.compiler.c_str(), machine.eigen.c_str(), machine.library.c_str());
  std::printf("Set: %s\n\n", results.set.c_str());
  std::printf("| what | threads | measured | bar | | note |\n|---|---|---|---|---|---|\n");
  for (const Finding& finding : results.findings) {
    std::printf("| %s | %d | %s%s%s | %s | %s | %s |\n", finding.what.c_str(), finding.threads,
                number(finding.value).c_str(), finding.unit.empty() ? "" : " ", finding.unit.c_str(),
                bar_text(finding).c_str(), verdict(finding).c_str(), finding.note.c_str());
  }
  std::printf("\n");
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, results.failures.size()); ++i) {
    std::printf("FAILED: %s\n", results.failures[i].c_str());
  }
  if (results.failures.size() > kShown) std::printf("… and %zu more\n", results.failures.size() - kShown);
  if (results.failures.empty()) std::printf("Every timed result was verified.\n");
}

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

inline std::string to_json(const Finding& finding) {
  std::ostringstream out;
  out << "{\"what\": " << quoted(finding.what) << ", \"threads\": " << finding.threads
      << ", \"value\": " << json_number(finding.value) << ", \"unit\": " << quoted(finding.unit);
  if (finding.bar) {
    out << ", \"bar\": {\"limit\": " << json_number(finding.bar->limit)
        << ", \"at_least\": " << (finding.bar->at_least ? "true" : "false")
        << ", \"goal\": " << (finding.bar->goal ? json_number(*finding.bar->goal) : "null")
        << ", \"holds\": " << (finding.bar->holds(finding.value) ? "true" : "false") << "}";
  }
  out << ", \"note\": " << quoted(finding.note) << "}";
  return std::move(out).str();
}

inline std::string to_json(const Series& series) {
  std::string out =
      "{\"name\": " + quoted(series.name) + ", \"threads\": " + std::to_string(series.threads) + ", \"ms\": [";
  for (std::size_t i = 0; i < series.ms.size(); ++i) out += (i == 0 ? "" : ", ") + json_number(series.ms[i]);
  return out + "]}";
}

template <class Items, class Format>
std::string json_list(const Items& items, const Format& format) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() == 1 ? "\n    " : ",\n    ") + format(item);
  return out + "]";
}

inline void write_json(const Results& results, const std::string& path) {
  const Machine& machine = results.machine;
  std::ofstream out(path);
  out << "{\n  \"machine\": {\"cpu\": " << quoted(machine.cpu) << ", \"hardware_threads\": " << machine.hardware_threads
      << ", \"load\": " << quoted(machine.load) << ", \"simd\": " << quoted(machine.simd)
      << ", \"compiler\": " << quoted(machine.compiler) << ", \"eigen\": " << quoted(machine.eigen)
      << ", \"spectralclip\": " << quoted(machine.library) << "},\n  \"set\": " << quoted(results.set)
      << ",\n  \"findings\": " << json_list(results.findings, [](const Finding& f) { return to_json(f); })
      << ",\n  \"series\": " << json_list(results.series, [](const Series& s) { return to_json(s); })
      << ",\n  \"failures\": " << json_list(results.failures, quoted) << "\n}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write '" + path + "'");
}

}  // namespace spectralclip::bench

// SPDX-License-Identifier: Apache-2.0
// What one run computes, step by step. The driver (drive.h) owns everything around it: progress, checkpoints, signals,
// resuming. An experiment draws all randomness by address (noise/draws.h), so that (seed, step) is the whole state of
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "record/recorder.h"
#include "record/state.h"

namespace spectralclip::lab {

// Thrown by Experiment::step when the loss is not finite: the run ends as "diverged", which is a result.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  // Over before the last step: a budget of time is used up.
  [[nodiscard]] virtual bool done() const { return false; }
  // Steps are 1 … steps(). Throws Diverged.
  virtual void step(std::int64_t step, Recorder& recorder) = 0;
  // The number shown beside the progress bar: its name and its present value.
  [[nodiscard]] virtual std::pair<std::string, double> headline() const = 0;
  // Everything that step() depends on beside (config, step). load() throws StateFileError on what it cannot take.
  virtual void save(StateWriter& out) const = 0;
  virtual void load(const StateReader& in) = 0;
  // After the last step: the results, flat, name -> number (arrays allowed). The first one is the task's main result.
  [[nodiscard]] virtual nlohmann::ordered_json results() = 0;
  // What goes into summary.json beside the results and may differ when a run is repeated: where the time went, …
  [[nodiscard]] virtual nlohmann::ordered_json notes() const { return nlohmann::ordered_json::object(); }
};

enum class Better { smaller, larger };

// One of the numbers in results(), which may also stand in the lines of metrics.jsonl.
struct Metric {
  std::string name;        // "val_loss"
  std::string label = {};  // "validation loss"; empty: the name
  std::string unit = {};   // "nats a token", "%"; empty: none
  Better better = Better::smaller;
};

struct SampleOptions {
  std::string prompt = {};
  std::int64_t tokens = 500;
  double temperature = 1.0;  // 0: always the likeliest
  std::int64_t top_k = 0;    // of how many likeliest to choose; 0: of all
  std::uint64_t seed = 1;
  std::function<void(const std::string& text)> write = {};
};

struct TaskInfo {
  std::string name;
  std::string help;                 // one line
  std::vector<Metric> metrics;      // the first is the main result: tables, rankings, searches
  std::vector<std::string> groups;  // groups of keys that it reads: "train", "record", "optimizer", …
  std::unique_ptr<Experiment> (*make)(const Config& config);
  // Tasks that make text: from a run's checkpoint, piece by piece. Null for the others.
  void (*sample)(const Config& config, const StateReader& state, const SampleOptions& options) = nullptr;
  // Tasks whose networks others can read: a run's weights as a model file, its format by the ending. Null for the rest.
  void (*write_model)(const Config& config, const StateReader& state, const std::string& path) = nullptr;
};

}  // namespace spectralclip::lab

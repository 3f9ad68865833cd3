// SPDX-License-Identifier: Apache-2.0
// What one run computes, step by step. The driver (drive.h) owns everything around it: progress, checkpoints, signals,
// resuming. An experiment draws all randomness by address (noise/draws.h), so that (seed, step) is the whole state of
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "record/recorder.h"

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
  // Steps are 1 … steps(). Throws Diverged.
  virtual void step(std::int64_t step, Recorder& recorder) = 0;
  // The number shown beside the progress bar: its name and its present value.
  [[nodiscard]] virtual std::pair<std::string, double> headline() const = 0;
  // Everything that step() depends on beside (config, step). load() throws StateFileError on what it cannot take.
  [[nodiscard]] virtual Sections save() const = 0;
  virtual void load(const Sections& sections) = 0;
  // After the last step: the results, flat, name -> number (arrays allowed). The first one is the task's main result.
  [[nodiscard]] virtual nlohmann::ordered_json results() = 0;
};

struct TaskInfo {
  std::string name;
  std::string help;                 // one line
  std::string main_result;          // name in results(), e.g. "train_loss"; smaller is better
  std::vector<std::string> groups;  // groups of keys that it reads: "train", "record", "optimizer", …
  std::unique_ptr<Experiment> (*make)(const Config& config);
};

}  // namespace spectralclip::lab

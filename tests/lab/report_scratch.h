// SPDX-License-Identifier: Apache-2.0
// Run and sweep directories for the tests of the report, in a folder that goes away with the test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lab/scratch_folder.h"
#include "report/run_data.h"

namespace spectralclip::lab::report::testing {

class RunFolder {
 public:
  [[nodiscard]] std::string path(const std::string& below = "") const {
    return below.empty() ? folder_.path() : folder_.path() + "/" + below;
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::ofstream(path(file), std::ios::binary) << text;
  }

 private:
  ScratchFolder folder_;
};

[[nodiscard]] inline Json finished_summary(const std::string& name, int seed, double train_loss) {
  return {{"status", "finished"},
          {"task", "mlp-heavy-tail"},
          {"name", name},
          {"seed", seed},
          {"step", 100},
          {"steps", 100},
          {"seconds", 2.0},
          {"results", {{"train_loss", train_loss}, {"val_loss", 2 * train_loss}}},
          {"main_result", "train_loss"},
          {"command", "spectralclip run " + name + " --seed " + std::to_string(seed)},
          {"settings", {{"optimizer.kind", "sgdm"}, {"optimizer.lr", "0.01"}, {"clip.kind", "spectral"}}}};
}

// The same as it would be after reading, without files.
[[nodiscard]] inline Run finished_run(const std::string& name, std::uint64_t seed, double train_loss) {
  Run run;
  run.task = "mlp-heavy-tail";
  run.name = name;
  run.seed = seed;
  run.status = "finished";
  run.main_result = "train_loss";
  run.command = "spectralclip run " + name;
  run.seconds = 2;
  run.settings = {{"optimizer.kind", "sgdm"}, {"optimizer.lr", "0.01"}, {"clip.kind", "spectral"}};
  run.results = {{"train_loss", train_loss}, {"val_loss", 2 * train_loss}};
  return run;
}

[[nodiscard]] inline Run diverged_run(const std::string& name, std::uint64_t seed) {
  Run run = finished_run(name, seed, 0);
  run.status = "diverged";
  run.results = {{"train_loss", nullptr}};
  return run;
}

[[nodiscard]] inline Trial trial_at(std::int64_t number, double x, double y, double value) {
  return {number, {{"x", x}, {"y", y}}, value == value ? "finished" : "diverged", value, 1.0};
}

// 2 x 2 over x = 1, 10 and y = 1, 100, both logarithmic; values row by row of y.
[[nodiscard]] inline Sweep small_grid(const std::string& name, const std::vector<double>& values) {
  Sweep sweep;
  sweep.name = name;
  sweep.search = "grid";
  sweep.metric = "train_loss";
  sweep.planned = 4;
  sweep.space = {{"x", true}, {"y", true}};
  for (std::size_t i = 0; i < values.size(); ++i)
    sweep.trials.push_back(trial_at(static_cast<std::int64_t>(i), i % 2 == 0 ? 1 : 10, i < 2 ? 1 : 100, values[i]));
  return sweep;
}

}  // namespace spectralclip::lab::report::testing

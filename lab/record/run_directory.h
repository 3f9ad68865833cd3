// SPDX-License-Identifier: Apache-2.0
// The files of one run (docs/laboratory.md lists them), owned by one process at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "record/checkpoint.h"
#include "record/jsonl_file.h"
#include "record/lock.h"
#include "record/recorder.h"

namespace spectralclip::lab {

class RunDirectory final : public Recorder {
 public:
  // Locks the directory, making it if need be. Throws StateFileError when another process has it.
  explicit RunDirectory(const std::string& path);

  // What stands there from before, if anything.
  [[nodiscard]] std::optional<std::string> config() const;              // text of config.toml
  [[nodiscard]] std::optional<nlohmann::ordered_json> summary() const;  // throws when it is no JSON
  [[nodiscard]] std::optional<CheckpointFile> checkpoint() const;       // throws when it is damaged

  // Opens the files of lines, which end with `last_step` (0: empty), and starts the clock at `seconds`.
  void open(const std::string& config, std::int64_t last_step, double seconds);

  void metrics(std::int64_t step, const nlohmann::ordered_json& values) override;
  void layers(std::int64_t step, const nlohmann::ordered_json& values) override;
  void spectra(std::int64_t step, const nlohmann::ordered_json& values) override;

  void flush();  // lines to their files
  // Lines to the disk, then the checkpoint: what it counts as done is there.
  void save(std::int64_t step, const std::function<void(StateWriter&)>& write);
  void write_summary(const nlohmann::ordered_json& summary);
  [[nodiscard]] double seconds() const;  // of work, earlier sessions included
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

  std::string path_;
  DirectoryLock lock_;
  std::string config_;
  std::unique_ptr<JsonlFile> metrics_, layers_, spectra_;
  std::chrono::steady_clock::time_point start_;
  double earlier_seconds_ = 0;
};

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// One run from its first step to its last: run directory, checkpoints, Ctrl-C, resuming, divergence, progress. A run
// that is killed at any moment and resumed gives the bits of one that was not.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/experiment.h"

namespace spectralclip::lab {

struct Progress {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double seconds = 0;           // of work on this run, earlier sessions included
  std::int64_t resumed_at = 0;  // step that this session began after
  double session_seconds = 0;
  std::string headline;  // "loss"
  double value = 0;
};

class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void update(const Progress& progress) = 0;  // some times a second
};

enum class RunStatus { finished, diverged, stopped };

struct RunOutcome {
  RunStatus status = RunStatus::finished;
  nlohmann::ordered_json summary;  // as summary.json
  std::int64_t resumed_at = 0;     // 0: from the start
  bool was_done = false;           // nothing was left to do
};

struct DriveOptions {
  std::string directory;
  std::string command;  // that reproduces the run; into summary.json
  bool resume = false;  // go on with what the directory holds; without it a used directory is refused
};

// Throws InvalidArgument and StateFileError; what was recorded before stays.
RunOutcome drive(const TaskInfo& task, const Config& config, const DriveOptions& options, ProgressSink& progress);

}  // namespace spectralclip::lab

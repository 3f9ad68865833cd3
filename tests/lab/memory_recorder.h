// SPDX-License-Identifier: Apache-2.0
// A recorder that keeps what it is given.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/experiment.h"

namespace spectralclip::lab {

class MemoryRecorder final : public Recorder {
 public:
  using Line = std::pair<std::int64_t, nlohmann::ordered_json>;

  void metrics(std::int64_t step, const nlohmann::ordered_json& values) override { lines.emplace_back(step, values); }
  void layers(std::int64_t /*step*/, const nlohmann::ordered_json& /*values*/) override {}
  void spectra(std::int64_t /*step*/, const nlohmann::ordered_json& /*values*/) override {}

  std::vector<Line> lines;
};

[[nodiscard]] inline Sections saved(const Experiment& experiment) {
  MemoryState state;
  experiment.save(state);
  return state.sections();
}

inline void run_steps(Experiment& experiment, std::int64_t first, std::int64_t last, Recorder& recorder) {
  for (std::int64_t step = first; step <= last; ++step) experiment.step(step, recorder);
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Where an experiment puts what it measured. Each call is one line of JSON, `step` is added as its first key, and steps
// never fall. Non-finite numbers become null.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace spectralclip::lab {

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void metrics(std::int64_t step, const nlohmann::ordered_json& values) = 0;  // metrics.jsonl
  virtual void layers(std::int64_t step, const nlohmann::ordered_json& values) = 0;   // layers.jsonl
  virtual void spectra(std::int64_t step, const nlohmann::ordered_json& values) = 0;  // spectra.jsonl
};

}  // namespace spectralclip::lab

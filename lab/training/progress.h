// SPDX-License-Identifier: Apache-2.0
// What a training run knows beside weights: losses so far, what the clipper's promises came to, where the time went.
#pragma once

#include <torch/torch.h>

#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/experiment.h"
#include "record/state.h"
#include "spectralclip/clipper.h"
#include "spectralclip/torch/clipper.h"
#include "training/device.h"

namespace spectralclip::lab {

// Losses since the last line of metrics.jsonl, the least mean that a line ever had, the best of the main metric.
struct LossProgress {
  double loss_sum = 0;
  std::int64_t loss_count = 0;
  double last_loss = std::numeric_limits<double>::quiet_NaN();
  double least_loss = std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::quiet_NaN();
  std::int64_t evaluations = 0;  // that had the main metric

  void save(StateWriter& out) const;  // section "progress"
  void load(const StateReader& in);
};

// How often the clipper was not sure, by layer and reason, and how often it was sure and wrong.
class Certificate {
 public:
  // After a step: statuses of all layers that are clipped spectrally.
  void count(const StepReport& report);
  // Largest singular values of the clipped gradients in float64 (by the smaller Gram matrix) against tau (1 + margin).
  void check(const StepReport& report, const spectralclip::torch::NamedTensors& parameters, double margin);

  // {"layer_steps", "unsure", "unsure_by_layer": {layer: {status: steps}}, "checked", "missed", "largest_excess"}.
  [[nodiscard]] nlohmann::ordered_json json() const;
  void save(StateWriter& out) const;  // section "certificate"
  void load(const StateReader& in);

 private:
  std::int64_t layer_steps_ = 0, unsure_ = 0, checked_ = 0, missed_ = 0;
  double largest_excess_ = 0;  // of sigma_max over tau, as a share of tau, among the layers that said ok
  std::map<std::string, std::map<std::string, std::int64_t>> unsure_by_layer_;
};

enum class TrainStage { forward = 0, backward = 1, clip = 2, optimizer = 3 };

// Seconds that each part of the steps took, this session's and earlier ones'.
class StageTimes {
 public:
  explicit StageTimes(const at::Device& device) : device_(device) {}
  template <class Work>
  auto measure(TrainStage stage, Work&& work) {
    struct Adds {
      StageTimes& times;
      TrainStage stage;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~Adds() { times.add(stage, start); }
    } adds{*this, stage};
    return work();
  }
  [[nodiscard]] double total() const noexcept;
  // {"train_seconds", "forward_share", "backward_share", "clip_share", "optimizer_share"}.
  [[nodiscard]] nlohmann::ordered_json json() const;
  void save(StateWriter& out) const;  // section "timing"
  void load(const StateReader& in);

 private:
  void add(TrainStage stage, std::chrono::steady_clock::time_point start);
  at::Device device_;
  std::array<double, 4> seconds_{};
};

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// What a training task brings: parameters, the loss of a step's batch, an evaluation. The loop (training.h) is the same
// for all.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::lab {

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  [[nodiscard]] virtual spectralclip::torch::NamedTensors parameters() const = 0;
  // Scalar, with a graph. The batch depends on (seed, step) alone, so a resumed run sees the same ones.
  virtual at::Tensor loss(std::int64_t step) = 0;
  // {"train_loss": …, "val_loss": …} of the present weights; without the training set while training goes on.
  virtual nlohmann::ordered_json evaluate(bool with_training_set) = 0;
  // Numbers about the task itself, into the results ("baseline_loss": what predicting the mean costs, …).
  [[nodiscard]] virtual nlohmann::ordered_json facts() const { return nlohmann::ordered_json::object(); }
};

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// The state of a training run as bytes of a checkpoint, and back. Loading throws StateFileError.
#pragma once

#include <torch/torch.h>

#include <limits>

#include "record/recorder.h"
#include "spectralclip/torch/clipper.h"

namespace spectralclip::lab {

// Losses since the last line of metrics.jsonl, and the least mean that a line ever had.
struct LossProgress {
  double loss_sum = 0;
  std::int64_t loss_count = 0;
  double last_loss = std::numeric_limits<double>::quiet_NaN();
  double least_loss = std::numeric_limits<double>::infinity();
};

[[nodiscard]] const Bytes& section(const Sections& sections, const std::string& name);

[[nodiscard]] Bytes saved(const spectralclip::torch::NamedTensors& parameters);
[[nodiscard]] Bytes saved(const ::torch::optim::Optimizer& optimizer);
[[nodiscard]] Bytes saved(const LossProgress& progress);
[[nodiscard]] Bytes saved_generator();  // torch's own, on the CPU

void load_weights(const spectralclip::torch::NamedTensors& parameters, const Bytes& bytes);
void load_optimizer(::torch::optim::Optimizer& optimizer, const Bytes& bytes);
[[nodiscard]] LossProgress loaded_progress(const Bytes& bytes);
void load_generator(const Bytes& bytes);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// The optimizer and the clipper that a configuration names, and the learning rate of a step.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "config/config.h"
#include "spectralclip/torch/gradient_clipper.h"

namespace spectralclip::lab {

[[nodiscard]] std::unique_ptr<::torch::optim::Optimizer> make_optimizer(
    const spectralclip::torch::NamedTensors& parameters, const OptimizerConfig& config);

// Steps count from 1.
[[nodiscard]] double learning_rate(const Config& config, std::int64_t step);
void set_learning_rate(::torch::optim::Optimizer& optimizer, double lr);

[[nodiscard]] std::unique_ptr<spectralclip::torch::GradientClipper> make_clipper(
    const spectralclip::torch::NamedTensors& parameters, const ClipConfig& config);

}  // namespace spectralclip::lab

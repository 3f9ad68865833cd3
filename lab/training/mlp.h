// SPDX-License-Identifier: Apache-2.0
// The paper's controlled experiment: a perceptron without biases, inputs-width-…-width-1 with ReLU, learns the product
// of the first coordinates of a Gaussian x from mean squared errors.
#pragma once

#include <memory>

#include "config/config.h"
#include "training/task.h"

namespace spectralclip::lab {

[[nodiscard]] std::unique_ptr<TrainingTask> make_mlp(const Config& config);

}  // namespace spectralclip::lab

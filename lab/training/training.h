// SPDX-License-Identifier: Apache-2.0
// The training loop, one for all tasks: loss, backward, noise, clip, step.
#pragma once

#include <string>
#include <vector>

#include "engine/experiment.h"

namespace spectralclip::lab {

// Tasks that train with LibTorch.
[[nodiscard]] std::vector<TaskInfo> training_tasks();

// "2.13.0 (2 threads by default)".
[[nodiscard]] std::string torch_text();

// Empty, or why LibTorch cannot multiply bfloat16 and float16 matrices here (spectralclip/torch/sixteen_bit.h).
[[nodiscard]] std::string sixteen_bit_failure();

}  // namespace spectralclip::lab

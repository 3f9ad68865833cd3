// SPDX-License-Identifier: Apache-2.0
// What an optimizer with momentum lets others do to the directions it is about to take.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace spectralclip::torch {

struct DirectionClip {
  // clip(parameters, directions): directions[i], of the shape of parameters[i], may be written; it is a copy.
  std::function<void(const std::vector<at::Tensor>&, const std::vector<at::Tensor>&)> clip = nullptr;
  bool one_at_a_time = true;  // one parameter after the other, or all of them at once: then all copies are alive
};

}  // namespace spectralclip::torch

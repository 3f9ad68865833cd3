// SPDX-License-Identifier: Apache-2.0
// The gradients that a step has, and their norms, without waiting for a device.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

// Each tensor once, in order and under its first name: tied weights have one gradient, which must not be clipped twice.
[[nodiscard]] NamedTensors distinct_parameters(const NamedTensors& parameters);
[[nodiscard]] std::vector<at::Tensor> distinct_tensors(const NamedTensors& parameters);

// Throws InvalidArgument unless each defined value has the shape of its parameter and entries that can be written one
// by one: a tensor that was expanded cannot.
void require_values(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& parameters);

// Those of `parameters` with a gradient.
[[nodiscard]] std::vector<at::Tensor> with_gradient(const std::vector<at::Tensor>& parameters);
[[nodiscard]] std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);

// Norm of one tensor of any layout and type, 0-d in float64, where it lives (a sparse one's on the CPU, because to
// coalesce it waits anyway).
[[nodiscard]] at::Tensor norm_of(const at::Tensor& tensor);

// The type that holds the norm of all of them, as torch promotes; float32 for none. Undefined tensors count as absent.
[[nodiscard]] at::ScalarType promoted_type(const std::vector<at::Tensor>& tensors);

// One 0-d norm per tensor, on its device, in its type (as torch.nn.utils.get_total_norm). Reads each tensor once.
[[nodiscard]] std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors);
// Root of the sum of squares on the first norm's device; a CPU zero for none.
[[nodiscard]] at::Tensor combine_norms(const std::vector<at::Tensor>& norms);

}  // namespace spectralclip::torch

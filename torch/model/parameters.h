// SPDX-License-Identifier: Apache-2.0
// From modules and lists of tensors to what a clipper is made of: names, shapes, and rules by the type of a module.
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

// Names and shapes; throws InvalidArgument naming a tensor that is undefined.
[[nodiscard]] std::vector<Parameter> described(const NamedTensors& tensors);

// Named by their positions.
[[nodiscard]] NamedTensors numbered(const std::vector<at::Tensor>& tensors);

// The model's parameters, tied ones once, under their first name.
[[nodiscard]] NamedTensors parameters_of(const ::torch::nn::Module& model);

// Embeddings by type are skipped: after the caller's own rules, before the default ones.
[[nodiscard]] SpectralClipperOptions with_type_rules(SpectralClipperOptions options, const ::torch::nn::Module& model);

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.h"

#include <torch/nn/modules/embedding.h>

#include "require.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

void skip_if_embedding(SpectralClipperOptions& options, const ::torch::nn::Module& module, const std::string& prefix) {
  if (!module.as<::torch::nn::EmbeddingImpl>() && !module.as<::torch::nn::EmbeddingBagImpl>()) return;
  Rule rule;
  rule.name_pattern = prefix + "weight";
  rule.treatment = Treatment::skip;
  rule.label = "embedding by type: skipped";
  options.rules.push_back(rule);
}

}  // namespace

std::vector<Parameter> described(const NamedTensors& tensors) {
  std::vector<Parameter> parameters;
  for (const auto& [name, tensor] : tensors) {
    SPECTRALCLIP_REQUIRE(tensor.defined(), "parameter \"", name, "\" is an undefined tensor");
    parameters.push_back({name, tensor.sizes().vec()});
  }
  return parameters;
}

NamedTensors numbered(const std::vector<at::Tensor>& tensors) {
  NamedTensors named;
  for (std::size_t i = 0; i < tensors.size(); ++i) named.emplace_back(std::to_string(i), tensors[i]);
  return named;
}

NamedTensors parameters_of(const ::torch::nn::Module& model) {
  NamedTensors named;
  for (const auto& item : model.named_parameters()) named.emplace_back(item.key(), item.value());
  return distinct_parameters(named);
}

// The model itself need not be shared, so LibTorch may not be asked for a pointer to it.
SpectralClipperOptions with_type_rules(SpectralClipperOptions options, const ::torch::nn::Module& model) {
  skip_if_embedding(options, model, "");
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    skip_if_embedding(options, *item.value(), item.key() + ".");
  }
  return options;
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "training/task.h"

#include <algorithm>
#include <array>

namespace spectralclip::lab {
namespace {

// As the rules of the clippers name them.
constexpr std::array kTables = {"wte", "wpe", "embed", "emb.", "lm_head"};

}  // namespace

NamedTensors trained_parameters(const ::torch::nn::Module& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

bool is_hidden_matrix(const std::string& name, const at::Tensor& parameter) {
  return parameter.dim() >= 2 && std::none_of(kTables.begin(), kTables.end(),
                                              [&](const char* table) { return name.find(table) != std::string::npos; });
}

std::vector<ParameterGroup> standard_groups(const NamedTensors& parameters, const OptimizerConfig& config) {
  if (config.vectors == "same") return {{"all", parameters, config}};
  ParameterGroup matrices{"matrices", {}, config}, rest{"vectors", {}, config};
  rest.optimizer.kind = config.vectors;
  rest.optimizer.lr = config.vector_lr;
  rest.optimizer.weight_decay = 0;
  for (const auto& [name, parameter] : parameters)
    (is_hidden_matrix(name, parameter) ? matrices : rest).parameters.emplace_back(name, parameter);
  std::vector<ParameterGroup> groups;
  for (ParameterGroup* group : {&matrices, &rest})
    if (!group->parameters.empty()) groups.push_back(std::move(*group));
  return groups;
}

NamedTensors TrainingTask::clipped() { return trained_parameters(model()); }

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// What every optimizer here does with LibTorch's parameter groups, closures and states.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "require.h"

namespace spectralclip::torch {

// Gives the last groups of an optimizer the options that came with `added`. Optimizer::add_param_group (LibTorch 2.13)
// replaces options of a type it does not know by the defaults; older ones keep them.
inline void restore_options(::torch::optim::Optimizer& optimizer,
                            const std::vector<::torch::optim::OptimizerParamGroup>& added) {
  auto& groups = optimizer.param_groups();
  const std::size_t first = groups.size() - added.size();
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (added[i].has_options()) groups[first + i].set_options(added[i].options().clone());
  }
}

// The options of a group, checked at every step: a scheduler or the user may have changed them.
template <class Options>
[[nodiscard]] const Options& checked_options(const ::torch::optim::OptimizerParamGroup& group, const char* expected) {
  const auto* options = dynamic_cast<const Options*>(&group.options());
  SPECTRALCLIP_REQUIRE(options != nullptr, "a parameter group holds options of another optimizer than ", expected);
  validate(*options);
  return *options;
}

// The state of a parameter, made on first use. LibTorch keys it by the tensor's address.
template <class State>
[[nodiscard]] State& state_of(::torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  std::unique_ptr<::torch::optim::OptimizerParamState>& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Evaluates the closure, if there is one, with gradients on: the first thing every step() does.
[[nodiscard]] inline at::Tensor evaluate(const ::torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode with_gradients(true);
  return closure();
}

}  // namespace spectralclip::torch

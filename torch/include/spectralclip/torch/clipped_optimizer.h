// SPDX-License-Identifier: Apache-2.0
// Where to clip: the gradients before a step, what a step changes, or the momentum inside it. For any optimizer of
// LibTorch and any clipper of make_gradient_clipper():
//
//   auto clipper = make_gradient_clipper(named_parameters, {.kind = GradientClip::spectral});
//   torch::optim::AdamW adamw(model->parameters());
//   ClippedOptimizer optimizer(adamw, *clipper, ClipPosition::update);
//   loss.backward();  optimizer.step();
//
// Schedulers, zero_grad, parameter groups and torch::save are the optimizer's own; the clipper's serialize() stands
// beside. An update is divided by the learning rate of its group, so that thresholds do not follow a schedule; weight
// decay is part of it. It is taken 32 MiB of parameters at a time (or the largest one) where optimizer and clipper
// treat parameters by themselves; otherwise a copy of the parameters is kept during the step.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spectralclip/torch/gradient_clipper.h"

namespace spectralclip::torch {

enum class ClipPosition : std::uint8_t {
  gradient = 0,  // clip, then step; with a closure after each evaluation of it
  update = 1,    // step, then clip (new - old) / lr
  momentum = 2   // clip the direction that momentum gives, before learning rate and decoupled weight decay; of
                 // MomentumSgd and of Muon (what it orthogonalises; not of its AdamW groups). The buffer stays as it is
};
[[nodiscard]] const char* to_string(ClipPosition position) noexcept;
[[nodiscard]] ClipPosition parse_clip_position(std::string_view name);  // throws InvalidArgument listing the names

class ClippedOptimizer {
 public:
  // Keeps references to both, which must have parameters in common. Throws InvalidArgument for momentum of an optimizer
  // that shows none.
  ClippedOptimizer(::torch::optim::Optimizer& optimizer, GradientClipper& clipper,
                   ClipPosition position = ClipPosition::gradient);
  ~ClippedOptimizer();
  ClippedOptimizer(const ClippedOptimizer&) = delete;
  ClippedOptimizer& operator=(const ClippedOptimizer&) = delete;

  // Returns the closure's loss, undefined without one.
  at::Tensor step(const ::torch::optim::Optimizer::LossClosure& closure = nullptr);
  // Of what was clipped in the latest step, before: 0-d, not waited for.
  [[nodiscard]] const at::Tensor& total_norm() const noexcept { return total_norm_; }
  // Whether an update can only be had from a copy of all parameters.
  [[nodiscard]] bool copies_parameters() const;

  [[nodiscard]] ::torch::optim::Optimizer& optimizer() noexcept { return optimizer_; }
  [[nodiscard]] GradientClipper& clipper() noexcept { return clipper_; }
  [[nodiscard]] ClipPosition position() const noexcept { return position_; }

 private:
  struct Moved;
  at::Tensor step_gradient(const ::torch::optim::Optimizer::LossClosure& closure);
  at::Tensor step_in_parts(const ::torch::optim::Optimizer::LossClosure& closure);
  at::Tensor step_whole(const ::torch::optim::Optimizer::LossClosure& closure);
  void step_part(std::size_t group, const std::vector<at::Tensor>& parameters, std::vector<at::Tensor>& norms);
  void clip_directions(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& directions);

  ::torch::optim::Optimizer& optimizer_;
  GradientClipper& clipper_;
  ClipPosition position_;
  std::unordered_map<const void*, std::size_t> places_;  // tensor -> its place among the clipper's parameters
  std::vector<at::Tensor> norms_;                        // of the directions of this step
  at::Tensor total_norm_;
};

}  // namespace spectralclip::torch

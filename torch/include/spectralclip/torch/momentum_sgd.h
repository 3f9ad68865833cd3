// SPDX-License-Identifier: Apache-2.0
// SGD with momentum in the form of the paper, B = beta B + (1 - beta) G, or in torch's, B = beta B + G. Both start from
// B = 0; their steps differ by the factor 1 - beta, so a learning rate tuned for one is off by that factor for the
// other. An ordinary torch::optim::Optimizer: parameter groups, schedulers, torch::save and torch::load.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "spectralclip/torch/clip_directions.h"

namespace spectralclip::torch {

enum class MomentumForm : std::uint8_t {
  ema = 0,     // B = beta B + (1 - beta) G: the paper, torch.optim.Muon
  classic = 1  // B = beta B + G: torch.optim.SGD
};
[[nodiscard]] const char* to_string(MomentumForm form) noexcept;
[[nodiscard]] MomentumForm parse_momentum_form(std::string_view name);  // throws InvalidArgument listing the names

// A group's options are taken whole: LibTorch completes them from the defaults only for optimizers of its own. Start a
// group from a copy of the defaults and change what differs.
struct MomentumSgdOptions : public ::torch::optim::OptimizerCloneableOptions<MomentumSgdOptions> {
  MomentumSgdOptions(double lr = 1e-2);  // NOLINT(google-explicit-constructor): as LibTorch's options
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;  // beta in [0, 1); 0 keeps no buffer
  TORCH_ARG(MomentumForm, form) = MomentumForm::ema;
  TORCH_ARG(bool, nesterov) = false;    // classic only: the step is G + beta B
  TORCH_ARG(double, weight_decay) = 0;  // wd >= 0
  TORCH_ARG(bool, decoupled) = false;   // false: G + wd p goes into the momentum; true: p *= 1 - lr wd beside it

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
  [[nodiscard]] double get_lr() const override;
  void set_lr(const double lr) override;
  friend bool operator==(const MomentumSgdOptions& a, const MomentumSgdOptions& b);
};
// Throws InvalidArgument naming the option, its value and its range.
void validate(const MomentumSgdOptions& options);

struct MomentumSgdParamState : public ::torch::optim::OptimizerCloneableParamState<MomentumSgdParamState> {
  TORCH_ARG(at::Tensor, momentum_buffer);  // shape of the parameter; undefined before the first step

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
};

class MomentumSgd : public ::torch::optim::Optimizer {
 public:
  explicit MomentumSgd(const std::vector<::torch::optim::OptimizerParamGroup>& groups,
                       const MomentumSgdOptions& defaults = {});
  explicit MomentumSgd(std::vector<at::Tensor> parameters, const MomentumSgdOptions& defaults = {});

  // Hides LibTorch's, which would drop the group's options: do not call it through an Optimizer&.
  void add_param_group(const ::torch::optim::OptimizerParamGroup& group);
  at::Tensor step(LossClosure closure = nullptr) override;
  // Clips the directions that momentum gives before they are taken; without a function nobody does. The buffers stay as
  // they are.
  void set_direction_clip(DirectionClip clip) { direction_clip_ = std::move(clip); }
  void save(::torch::serialize::OutputArchive& archive) const override;
  // Replaces options and state of all groups; after a failure both are as they were.
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  DirectionClip direction_clip_;
};

}  // namespace spectralclip::torch

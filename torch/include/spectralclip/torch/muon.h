// SPDX-License-Identifier: Apache-2.0
// Muon: momentum whose matrices are orthogonalised by Newton-Schulz before the step (Jordan et al. 2024). Groups with
// use_adamw get AdamW in the same optimizer: vectors, embeddings and heads, which Muon is not for.
//
//   using namespace spectralclip::torch;
//   Muon optimizer(muon_param_groups(named_parameters, MuonOptions(0.02), muon_adamw_options(3e-4)));
//
// An ordinary torch::optim::Optimizer: parameter groups, schedulers, torch::save and torch::load. The defaults are
// those of Python's torch.optim.Muon, but for the type that Newton-Schulz works in (bfloat16 there).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "spectralclip/rules.h"
#include "spectralclip/torch/clipper.h"
#include "spectralclip/torch/momentum_sgd.h"

namespace spectralclip::torch {

// What the orthogonalised update of an m x n matrix is multiplied by, beside the learning rate.
enum class UpdateScale : std::uint8_t {
  original = 0,   // sqrt(max(1, m / n))
  match_rms = 1,  // 0.2 sqrt(max(m, n)): the RMS of an AdamW update (Moonlight; the published NanoGPT code)
  none = 2
};
[[nodiscard]] const char* to_string(UpdateScale scale) noexcept;
[[nodiscard]] UpdateScale parse_update_scale(std::string_view name);  // throws InvalidArgument listing the names

// What Newton-Schulz works in.
enum class OrthogonalizeType : std::uint8_t {
  automatic = 0,  // float64 for float64; else float32 on the CPU, bfloat16 on other devices
  float32 = 1,
  bfloat16 = 2
};
[[nodiscard]] const char* to_string(OrthogonalizeType type) noexcept;
[[nodiscard]] OrthogonalizeType parse_orthogonalize_type(std::string_view name);

// A group's options are taken whole, as in momentum_sgd.h.
struct MuonOptions : public ::torch::optim::OptimizerCloneableOptions<MuonOptions> {
  using Betas = std::tuple<double, double>;
  using Coefficients = std::array<double, 3>;

  MuonOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor): as LibTorch's options
  TORCH_ARG(double, lr);
  TORCH_ARG(double, weight_decay) = 0.1;  // decoupled: p *= 1 - lr wd
  // Muon. Tensors of more than two axes are matrices (d0, rest).
  TORCH_ARG(double, momentum) = 0.95;                 // beta in [0, 1)
  TORCH_ARG(MomentumForm, form) = MomentumForm::ema;  // differ only through eps: Newton-Schulz divides the scale out
  TORCH_ARG(bool, nesterov) = true;
  TORCH_ARG(UpdateScale, scale) = UpdateScale::original;
  TORCH_ARG(std::int64_t, ns_steps) = 5;
  TORCH_ARG(Coefficients, ns_coefficients) = {3.4445, -4.7750, 2.0315};  // a x + b x^3 + c x^5: steepest at 0
  TORCH_ARG(double, eps) = 1e-7;                                         // least norm that is divided by
  TORCH_ARG(OrthogonalizeType, ns_type) = OrthogonalizeType::automatic;
  // AdamW, with lr and weight_decay of the same group.
  TORCH_ARG(bool, use_adamw) = false;
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, adamw_eps) = 1e-8;

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
  [[nodiscard]] double get_lr() const override;
  void set_lr(const double lr) override;
  friend bool operator==(const MuonOptions& a, const MuonOptions& b);
};
// Throws InvalidArgument naming the option, its value and its range.
void validate(const MuonOptions& options);
// Options of an AdamW group with torch.optim.AdamW's defaults (weight_decay 0.01).
[[nodiscard]] MuonOptions muon_adamw_options(double lr = 1e-3);

struct MuonParamState : public ::torch::optim::OptimizerCloneableParamState<MuonParamState> {
  TORCH_ARG(std::int64_t, step) = 0;       // AdamW
  TORCH_ARG(at::Tensor, momentum_buffer);  // Muon; all three have the parameter's shape, undefined when not in use
  TORCH_ARG(at::Tensor, exp_avg);          // AdamW …
  TORCH_ARG(at::Tensor, exp_avg_sq);

 public:
  void serialize(::torch::serialize::InputArchive& archive) override;
  void serialize(::torch::serialize::OutputArchive& archive) const override;
};

class Muon : public ::torch::optim::Optimizer {
 public:
  // Throws InvalidArgument for a vector in a group without use_adamw.
  explicit Muon(const std::vector<::torch::optim::OptimizerParamGroup>& groups, const MuonOptions& defaults = {});
  explicit Muon(std::vector<at::Tensor> parameters, const MuonOptions& defaults = {});

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

// Two groups, always: [0] what `rules`, then default_rules(), call spectral and has two axes or more, with the options
// `muon`; [1] the rest with `adamw`, use_adamw switched on. Tied tensors count once, under their first name.
[[nodiscard]] std::vector<::torch::optim::OptimizerParamGroup> muon_param_groups(
    const NamedTensors& parameters, const MuonOptions& muon = {}, const MuonOptions& adamw = muon_adamw_options(),
    const std::vector<Rule>& rules = {});

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "training/optimizers.h"

#include <cmath>
#include <numbers>

#include "require.h"
#include "spectralclip/torch/momentum_sgd.h"
#include "spectralclip/torch/muon.h"
#include "training/archive.h"

namespace spectralclip::lab {
namespace {

namespace sct = spectralclip::torch;

std::vector<at::Tensor> tensors_of(const sct::NamedTensors& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  return tensors;
}

sct::MomentumSgdOptions sgd_options(const OptimizerConfig& config) {
  return sct::MomentumSgdOptions(config.lr)
      .momentum(config.kind == "sgd" ? 0.0 : config.momentum)
      .form(sct::parse_momentum_form(config.momentum_form))
      .nesterov(config.nesterov)
      .weight_decay(config.weight_decay);
}

std::unique_ptr<::torch::optim::Optimizer> make_muon(const sct::NamedTensors& parameters, const OptimizerConfig& c) {
  const auto muon = sct::MuonOptions(c.lr).momentum(c.momentum).nesterov(c.nesterov).weight_decay(c.weight_decay);
  auto adamw = sct::muon_adamw_options(c.lr).betas({c.beta1, c.beta2}).adamw_eps(c.eps).weight_decay(c.weight_decay);
  return std::make_unique<sct::Muon>(sct::muon_param_groups(parameters, muon, adamw));
}

std::unique_ptr<::torch::optim::Optimizer> make_optimizer(const sct::NamedTensors& parameters,
                                                          const OptimizerConfig& c) {
  if (c.kind == "sgd" || c.kind == "sgdm")
    return std::make_unique<sct::MomentumSgd>(tensors_of(parameters), sgd_options(c));
  if (c.kind == "adam")
    return std::make_unique<::torch::optim::Adam>(
        tensors_of(parameters),
        ::torch::optim::AdamOptions(c.lr).betas({c.beta1, c.beta2}).eps(c.eps).weight_decay(c.weight_decay));
  if (c.kind == "adamw")
    return std::make_unique<::torch::optim::AdamW>(
        tensors_of(parameters),
        ::torch::optim::AdamWOptions(c.lr).betas({c.beta1, c.beta2}).eps(c.eps).weight_decay(c.weight_decay));
  SPECTRALCLIP_REQUIRE(c.kind == "muon", "optimizer.kind = ", c.kind, ": expected sgd, sgdm, adam, adamw or muon");
  return make_muon(parameters, c);
}

}  // namespace

Optimizers::Optimizers(const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups)
    all_.push_back({group.label, group.optimizer.lr, make_optimizer(group.parameters, group.optimizer)});
}

void Optimizers::zero_grad() {
  for (const One& one : all_) one.optimizer->zero_grad();
}

void Optimizers::set_rate(::torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

void Optimizers::step() {
  for (const One& one : all_) one.optimizer->step();
}

std::string Optimizers::section(std::size_t index) {
  return index == 0 ? "optimizer" : "optimizer." + std::to_string(index);
}

void Optimizers::save(StateWriter& out) const {
  for (std::size_t i = 0; i < all_.size(); ++i)
    write_archive(out, section(i), [&](auto& archive) { all_[i].optimizer->save(archive); });
}

void Optimizers::load(const StateReader& in) {
  for (std::size_t i = 0; i < all_.size(); ++i)
    read_archive(in, section(i), [&](auto& archive) { all_[i].optimizer->load(archive); });
}

double scheduled_rate(const TrainConfig& config, std::int64_t step, double share) {
  if (step <= config.warmup_steps) return static_cast<double>(step) / static_cast<double>(config.warmup_steps);
  if (config.schedule == "constant") return 1.0;
  const double length = static_cast<double>(std::max<std::int64_t>(1, config.steps - config.warmup_steps));
  const double done =
      config.seconds > 0 ? std::min(1.0, share) : static_cast<double>(step - config.warmup_steps - 1) / length;
  const double left = config.schedule == "linear" ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return config.final_lr + (1.0 - config.final_lr) * left;
}

std::unique_ptr<sct::GradientClipper> make_clipper(const NamedTensors& parameters, const ClipConfig& config) {
  sct::GradientClipOptions options;
  options.kind = sct::parse_gradient_clip(config.kind);
  options.max_norm = config.max_norm;
  options.agc_factor = config.agc_factor;
  options.max_value = config.max_value;
  options.soft_scale = config.soft_scale;
  options.spectral.clip = config.options;
  options.spectral.threshold = config.threshold;
  return sct::make_gradient_clipper(parameters, options);
}

}  // namespace spectralclip::lab

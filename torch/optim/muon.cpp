// SPDX-License-Identifier: Apache-2.0
// The step of Muon, of AdamW for the groups that ask for it, and the split of a model into such groups.
#include "spectralclip/torch/muon.h"

#include <algorithm>
#include <cmath>

#include "baselines/rule_order.h"
#include "optim/archive.h"
#include "optim/directions.h"
#include "optim/groups.h"
#include "optim/newton_schulz.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

using ::torch::optim::OptimizerParamGroup;

void require_matrix(const at::Tensor& parameter) {
  SPECTRALCLIP_REQUIRE(parameter.dim() >= 2, "a parameter of shape ", parameter.sizes(),
                       " is no matrix: put it into a group with use_adamw (muon_param_groups does so)");
}

void require_usable(const OptimizerParamGroup& group) {
  if (checked_options<MuonOptions>(group, "Muon").use_adamw()) return;
  for (const at::Tensor& parameter : group.params()) require_matrix(parameter);
}

double update_scale(UpdateScale scale, std::int64_t rows, std::int64_t cols) {
  const auto m = static_cast<double>(rows), n = static_cast<double>(cols);
  switch (scale) {
    case UpdateScale::original:
      return std::sqrt(std::max(1.0, m / n));
    case UpdateScale::match_rms:
      return 0.2 * std::sqrt(std::max(m, n));
    case UpdateScale::none:
      return 1;
  }
  return 1;
}

// Advances B, which starts from 0, and returns what is to be orthogonalised.
at::Tensor momentum_direction(at::Tensor& buffer, const at::Tensor& gradient, const MuonOptions& options) {
  const double beta = options.momentum();
  if (!buffer.defined()) buffer = at::zeros_like(gradient);
  if (options.form() == MomentumForm::ema) {
    buffer.lerp_(gradient, 1 - beta);
    return options.nesterov() ? gradient.lerp(buffer, beta) : buffer;
  }
  buffer.mul_(beta).add_(gradient);
  return options.nesterov() ? gradient.add(buffer, beta) : buffer;
}

void take_orthogonalized(const at::Tensor& parameter, const at::Tensor& direction, const MuonOptions& options) {
  const at::Tensor matrix = direction.reshape({parameter.size(0), -1});  // m x n
  const double scale = update_scale(options.scale(), matrix.size(0), matrix.size(1));
  const at::Tensor update = newton_schulz(matrix, options).reshape(parameter.sizes());
  parameter.mul_(1 - options.lr() * options.weight_decay());
  parameter.add_(update, -options.lr() * scale);
}

void step_adamw(const at::Tensor& parameter, MuonParamState& state, const MuonOptions& options) {
  const at::Tensor& gradient = parameter.grad();
  const auto [beta1, beta2] = options.betas();
  if (!state.exp_avg().defined()) {
    state.exp_avg(at::zeros_like(gradient)).exp_avg_sq(at::zeros_like(gradient));
  }
  state.step(state.step() + 1);
  const auto t = static_cast<double>(state.step());
  state.exp_avg().lerp_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const at::Tensor root = state.exp_avg_sq().sqrt().div_(std::sqrt(1 - std::pow(beta2, t))).add_(options.adamw_eps());
  parameter.mul_(1 - options.lr() * options.weight_decay());
  parameter.addcdiv_(state.exp_avg(), root, -options.lr() / (1 - std::pow(beta1, t)));
}

}  // namespace

Muon::Muon(const std::vector<OptimizerParamGroup>& groups, const MuonOptions& defaults)
    : Optimizer(groups, std::make_unique<MuonOptions>(defaults)) {
  validate(defaults);
  restore_options(*this, groups);
  for (const auto& group : param_groups()) require_usable(group);
}

Muon::Muon(std::vector<at::Tensor> parameters, const MuonOptions& defaults)
    : Muon({OptimizerParamGroup(std::move(parameters))}, defaults) {}

void Muon::add_param_group(const OptimizerParamGroup& group) {
  OptimizerParamGroup complete(group);
  if (!group.has_options()) complete.set_options(defaults().clone());
  require_usable(complete);
  Optimizer::add_param_group(complete);
  restore_options(*this, {complete});
}

at::Tensor Muon::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = evaluate(closure);
  Directions<MuonOptions, decltype(&take_orthogonalized)> directions(direction_clip_, &take_orthogonalized);
  for (const auto& group : param_groups()) {
    const auto& options = checked_options<MuonOptions>(group, "Muon");
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || parameter.numel() == 0) continue;
      SPECTRALCLIP_REQUIRE(!parameter.grad().is_sparse(), "Muon takes no sparse gradients");
      auto& state = state_of<MuonParamState>(*this, parameter);
      if (options.use_adamw()) {
        step_adamw(parameter, state, options);
        continue;
      }
      require_matrix(parameter);
      const at::Tensor direction = momentum_direction(state.momentum_buffer(), parameter.grad(), options);
      directions.add(parameter, direction, direction.is_same(state.momentum_buffer()), options);
    }
  }
  directions.flush();
  return loss;
}

void Muon::save(::torch::serialize::OutputArchive& archive) const {
  ::torch::optim::serialize<MuonParamState, MuonOptions>(archive, *this);
}

void Muon::load(::torch::serialize::InputArchive& archive) { load_whole<MuonParamState, MuonOptions>(archive, *this); }

std::vector<OptimizerParamGroup> muon_param_groups(const NamedTensors& parameters, const MuonOptions& muon,
                                                   const MuonOptions& adamw, const std::vector<Rule>& rules) {
  const std::vector<Rule> all_rules = with_default_rules(rules);
  std::vector<at::Tensor> matrices, rest;
  for (const auto& [name, tensor] : distinct_parameters(parameters)) {
    const Rule& rule = find_rule(all_rules, Parameter{name, tensor.sizes().vec()});
    const bool is_matrix = tensor.dim() >= 2 && rule.treatment == Treatment::spectral;
    (is_matrix ? matrices : rest).push_back(tensor);
  }
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::move(matrices), std::make_unique<MuonOptions>(muon));
  groups.emplace_back(std::move(rest), std::make_unique<MuonOptions>(MuonOptions(adamw).use_adamw(true)));
  return groups;
}

}  // namespace spectralclip::torch

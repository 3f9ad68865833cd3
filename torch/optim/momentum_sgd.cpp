// SPDX-License-Identifier: Apache-2.0
// See momentum_sgd.h. Per parameter: one pass for the buffer, one for the step, one more for weight decay.
#include "spectralclip/torch/momentum_sgd.h"

#include "baselines/enum_names.h"
#include "optim/archive.h"
#include "optim/directions.h"
#include "optim/groups.h"
#include "optim/ranges.h"

namespace spectralclip::torch {
namespace {

using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

constexpr std::array<EnumName<MomentumForm>, 2> kForms = {
    {{MomentumForm::ema, "ema"}, {MomentumForm::classic, "classic"}}};

constexpr std::array kSgdFields = {"lr", "momentum", "form", "nesterov", "weight_decay", "decoupled"};
template <class Options>  // MomentumSgdOptions, const or not
auto sgd_fields(Options& o) {
  return std::tie(o.lr(), o.momentum(), o.form(), o.nesterov(), o.weight_decay(), o.decoupled());
}

// B after this gradient; B starts from 0.
const at::Tensor& advance(at::Tensor& buffer, const at::Tensor& gradient, const MomentumSgdOptions& options) {
  const bool ema = options.form() == MomentumForm::ema;
  if (!buffer.defined()) {
    buffer = ema ? gradient.mul(1 - options.momentum()) : gradient.clone();
  } else if (ema) {
    buffer.lerp_(gradient, 1 - options.momentum());
  } else {
    buffer.mul_(options.momentum()).add_(gradient);
  }
  return buffer;
}

// Where the parameter is to go, before the learning rate. It may be the buffer or the gradient itself.
at::Tensor direction_of(const at::Tensor& parameter, MomentumSgdParamState& state, const MomentumSgdOptions& options) {
  at::Tensor gradient = parameter.grad();
  if (options.weight_decay() != 0 && !options.decoupled()) gradient = gradient.add(parameter, options.weight_decay());
  if (options.momentum() == 0) return gradient;
  const at::Tensor& buffer = advance(state.momentum_buffer(), gradient, options);
  return options.nesterov() ? gradient.add(buffer, options.momentum()) : buffer;
}

void take(const at::Tensor& parameter, const at::Tensor& direction, const MomentumSgdOptions& options) {
  if (options.weight_decay() != 0 && options.decoupled()) parameter.mul_(1 - options.lr() * options.weight_decay());
  parameter.add_(direction, -options.lr());
}

}  // namespace

const char* to_string(MomentumForm form) noexcept { return name_of(kForms, form); }
MomentumForm parse_momentum_form(std::string_view name) { return parse_name("momentum form", kForms, name); }

MomentumSgdOptions::MomentumSgdOptions(double lr) : lr_(lr) {}
void MomentumSgdOptions::serialize(InputArchive& archive) { read_fields(archive, kSgdFields, sgd_fields(*this)); }
void MomentumSgdOptions::serialize(OutputArchive& archive) const {
  write_fields(archive, kSgdFields, sgd_fields(*this));
}
double MomentumSgdOptions::get_lr() const { return lr(); }
void MomentumSgdOptions::set_lr(const double lr) { this->lr(lr); }
bool operator==(const MomentumSgdOptions& a, const MomentumSgdOptions& b) { return sgd_fields(a) == sgd_fields(b); }

void validate(const MomentumSgdOptions& options) {
  require_not_negative("lr", options.lr());
  require_decay("momentum", options.momentum());
  require_named("momentum form", kForms, options.form());
  require_not_negative("weight_decay", options.weight_decay());
  SPECTRALCLIP_REQUIRE(!options.nesterov() || (options.form() == MomentumForm::classic && options.momentum() > 0),
                       "nesterov needs form = classic and momentum > 0, not form = ", to_string(options.form()),
                       " and momentum = ", options.momentum());
}

void MomentumSgdParamState::serialize(InputArchive& archive) {
  read_field(archive, "momentum_buffer", momentum_buffer());
}
void MomentumSgdParamState::serialize(OutputArchive& archive) const {
  write_field(archive, "momentum_buffer", momentum_buffer());
}

MomentumSgd::MomentumSgd(const std::vector<::torch::optim::OptimizerParamGroup>& groups,
                         const MomentumSgdOptions& defaults)
    : Optimizer(groups, std::make_unique<MomentumSgdOptions>(defaults)) {
  validate(defaults);
  restore_options(*this, groups);
  for (const auto& group : param_groups()) (void)checked_options<MomentumSgdOptions>(group, "MomentumSgd");
}

MomentumSgd::MomentumSgd(std::vector<at::Tensor> parameters, const MomentumSgdOptions& defaults)
    : MomentumSgd({::torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

void MomentumSgd::add_param_group(const ::torch::optim::OptimizerParamGroup& group) {
  if (group.has_options()) (void)checked_options<MomentumSgdOptions>(group, "MomentumSgd");
  Optimizer::add_param_group(group);
  restore_options(*this, {group});
}

at::Tensor MomentumSgd::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = evaluate(closure);
  Directions<MomentumSgdOptions, decltype(&take)> directions(direction_clip_, &take);
  for (const auto& group : param_groups()) {
    const auto& options = checked_options<MomentumSgdOptions>(group, "MomentumSgd");
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      SPECTRALCLIP_REQUIRE(!parameter.grad().is_sparse(), "MomentumSgd takes no sparse gradients");
      auto& state = state_of<MomentumSgdParamState>(*this, parameter);
      const at::Tensor direction = direction_of(parameter, state, options);
      const bool kept = direction.is_same(state.momentum_buffer()) || direction.is_same(parameter.grad());
      directions.add(parameter, direction, kept, options);
    }
  }
  directions.flush();
  return loss;
}

void MomentumSgd::save(OutputArchive& archive) const {
  ::torch::optim::serialize<MomentumSgdParamState, MomentumSgdOptions>(archive, *this);
}

void MomentumSgd::load(InputArchive& archive) { load_whole<MomentumSgdParamState, MomentumSgdOptions>(archive, *this); }

}  // namespace spectralclip::torch

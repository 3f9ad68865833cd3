// SPDX-License-Identifier: Apache-2.0
// See clipped_optimizer.h. An optimizer is stepped in parts by showing it a part of its parameters at a time.
#include "spectralclip/torch/clipped_optimizer.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <utility>

#include "baselines/enum_names.h"
#include "optim/groups.h"
#include "spectralclip/torch/muon.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

using Closure = ::torch::optim::Optimizer::LossClosure;
using Tensors = std::vector<at::Tensor>;

constexpr std::array<EnumName<ClipPosition>, 3> kPositions = {
    {{ClipPosition::gradient, "gradient"}, {ClipPosition::update, "update"}, {ClipPosition::momentum, "momentum"}}};
constexpr std::size_t kPartBytes = std::size_t{32} << 20;  // kernels fill, and what is kept meanwhile is little

template <class... Optimizers>
bool is_one_of(const ::torch::optim::Optimizer& optimizer) {
  return ((dynamic_cast<const Optimizers*>(&optimizer) != nullptr) || ...);
}

// Those that treat each parameter by itself. LBFGS does not, and of others nobody knows.
bool is_parameter_wise(const ::torch::optim::Optimizer& optimizer) {
  using namespace ::torch::optim;  // NOLINT(google-build-using-namespace)
  return is_one_of<SGD, Adam, AdamW, RMSprop, Adagrad, MomentumSgd, Muon>(optimizer);
}

// Parameters with a gradient, in order, up to kPartBytes together.
std::vector<Tensors> parts_of(const Tensors& parameters) {
  std::vector<Tensors> parts;
  std::size_t size = 0;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    if (parts.empty() || size + parameter.nbytes() > kPartBytes) {
      parts.emplace_back();
      size = 0;
    }
    parts.back().push_back(parameter);
    size += parameter.nbytes();
  }
  return parts;
}

// The optimizer as if `part` of one group were all its parameters, until this goes.
class OnlyPart {
 public:
  OnlyPart(::torch::optim::Optimizer& optimizer, std::size_t group, const Tensors& part) : optimizer_(optimizer) {
    auto& groups = optimizer_.param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      whole_.push_back(std::exchange(groups[i].params(), i == group ? part : Tensors{}));
    }
  }
  ~OnlyPart() {
    auto& groups = optimizer_.param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].params().swap(whole_[i]);
  }
  OnlyPart(const OnlyPart&) = delete;
  OnlyPart& operator=(const OnlyPart&) = delete;

 private:
  ::torch::optim::Optimizer& optimizer_;
  std::vector<Tensors> whole_;
};

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

// (new - old) / lr, in float32 for the 16-bit types, where the difference of two parameters keeps few digits.
at::Tensor update_of(const at::Tensor& now, const at::Tensor& old, double lr) {
  const bool narrow = now.scalar_type() == at::kBFloat16 || now.scalar_type() == at::kHalf;
  const at::ScalarType work = narrow ? at::kFloat : now.scalar_type();
  return now.detach().to(work, /*non_blocking=*/false, /*copy=*/true).sub_(old).div_(lr);
}

// p += lr (clipped - update): keeps the bits of p where nothing was clipped. What is not finite was left alone.
void correct(const at::Tensor& parameter, const at::Tensor& update, const at::Tensor& clipped, double lr) {
  parameter.detach().add_(clipped.sub_(update).nan_to_num_(0, 0, 0), lr);
}

}  // namespace

const char* to_string(ClipPosition position) noexcept { return name_of(kPositions, position); }
ClipPosition parse_clip_position(std::string_view name) { return parse_name("clip position", kPositions, name); }

ClippedOptimizer::ClippedOptimizer(::torch::optim::Optimizer& optimizer, GradientClipper& clipper,
                                   ClipPosition position)
    : optimizer_(optimizer), clipper_(clipper), position_(position), total_norm_(at::zeros({})) {
  require_named("clip position", kPositions, position);
  const Tensors& known = clipper.parameters();
  for (std::size_t i = 0; i < known.size(); ++i) places_.emplace(known[i].unsafeGetTensorImpl(), i);
  bool common = false, any = false;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      any = true;
      common = common || places_.contains(parameter.unsafeGetTensorImpl());
    }
  }
  SPECTRALCLIP_REQUIRE(common || !any,
                       "the optimizer's parameters are none of the clipper's: both must be made from the same model");
  if (position != ClipPosition::momentum) return;
  const DirectionClip clip{
      [this](const Tensors& parameters, const Tensors& directions) { clip_directions(parameters, directions); },
      clipper.is_separable()};
  if (auto* sgd = dynamic_cast<MomentumSgd*>(&optimizer)) {
    sgd->set_direction_clip(clip);
  } else {
    auto* muon = dynamic_cast<Muon*>(&optimizer);
    SPECTRALCLIP_REQUIRE(muon != nullptr,
                         "clip position momentum needs an optimizer that shows its momentum, MomentumSgd or Muon; of "
                         "others the update can be clipped");
    muon->set_direction_clip(clip);
  }
}

ClippedOptimizer::~ClippedOptimizer() {
  if (position_ != ClipPosition::momentum) return;
  if (auto* sgd = dynamic_cast<MomentumSgd*>(&optimizer_)) sgd->set_direction_clip({});
  if (auto* muon = dynamic_cast<Muon*>(&optimizer_)) muon->set_direction_clip({});
}

bool ClippedOptimizer::copies_parameters() const {
  return position_ == ClipPosition::update && !(is_parameter_wise(optimizer_) && clipper_.is_separable());
}

at::Tensor ClippedOptimizer::step(const Closure& closure) {
  if (position_ == ClipPosition::gradient) return step_gradient(closure);
  if (position_ == ClipPosition::update) return copies_parameters() ? step_whole(closure) : step_in_parts(closure);
  norms_.clear();
  at::Tensor loss = optimizer_.step(closure);
  total_norm_ = combine_norms(norms_);
  return loss;
}

at::Tensor ClippedOptimizer::step_gradient(const Closure& closure) {
  at::Tensor loss;
  if (closure) {
    loss = optimizer_.step([&] {
      at::Tensor evaluated = closure();
      total_norm_ = clipper_.before_step();
      return evaluated;
    });
  } else {
    total_norm_ = clipper_.before_step();
    loss = optimizer_.step();
  }
  if (!optimizer_.param_groups().empty()) {
    clipper_.after_step(optimizer_.param_groups().front().options().get_lr());  // of soft_update
  }
  return loss;
}

at::Tensor ClippedOptimizer::step_in_parts(const Closure& closure) {
  at::Tensor loss = evaluate(closure);
  const at::NoGradGuard no_grad;
  Tensors norms;
  for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group) {
    for (const Tensors& part : parts_of(optimizer_.param_groups()[group].params())) step_part(group, part, norms);
  }
  total_norm_ = combine_norms(norms);
  return loss;
}

void ClippedOptimizer::step_part(std::size_t group, const Tensors& part, Tensors& norms) {
  const Tensors old = copies_of(part);
  {
    const OnlyPart only(optimizer_, group, part);
    (void)optimizer_.step();
  }
  const double lr = optimizer_.param_groups()[group].options().get_lr();
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto place = places_.find(part[i].unsafeGetTensorImpl());
    if (place == places_.end() || lr == 0) continue;
    const at::Tensor update = update_of(part[i], old[i], lr);
    norms.push_back(at::linalg_vector_norm(update));
    const at::Tensor clipped = update.clone();
    (void)clipper_.clip_one(place->second, clipped);
    correct(part[i], update, clipped, lr);
  }
}

struct ClippedOptimizer::Moved {
  at::Tensor parameter, update, clipped;
  double lr;
};

at::Tensor ClippedOptimizer::step_whole(const Closure& closure) {
  std::vector<Tensors> old;
  for (const auto& group : optimizer_.param_groups()) old.push_back(copies_of(group.params()));
  at::Tensor loss = optimizer_.step(closure);
  const at::NoGradGuard no_grad;
  std::vector<Moved> moved;
  Tensors values(clipper_.parameters().size());
  for (std::size_t g = 0; g < old.size(); ++g) {
    const auto& group = optimizer_.param_groups()[g];
    const double lr = group.options().get_lr();
    for (std::size_t i = 0; i < old[g].size(); ++i) {
      const at::Tensor& parameter = group.params()[i];
      const auto place = places_.find(parameter.unsafeGetTensorImpl());
      if (place == places_.end() || lr == 0 || !parameter.grad().defined()) continue;
      const at::Tensor update = update_of(parameter, old[g][i], lr);
      values[place->second] = update.clone();
      moved.push_back({parameter, update, values[place->second], lr});
    }
  }
  total_norm_ = clipper_.clip(values);
  for (const Moved& m : moved) correct(m.parameter, m.update, m.clipped, m.lr);
  return loss;
}

void ClippedOptimizer::clip_directions(const Tensors& parameters, const Tensors& directions) {
  Tensors values(clipper_.parameters().size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto place = places_.find(parameters[i].unsafeGetTensorImpl());
    if (place == places_.end()) continue;
    norms_.push_back(at::linalg_vector_norm(directions[i]));
    if (clipper_.is_separable()) {
      (void)clipper_.clip_one(place->second, directions[i]);
    } else {
      values[place->second] = directions[i];
    }
  }
  if (!clipper_.is_separable()) (void)clipper_.clip(values);
}

}  // namespace spectralclip::torch

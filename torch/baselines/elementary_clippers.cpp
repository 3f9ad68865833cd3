// SPDX-License-Identifier: Apache-2.0
// The clippers that scale or clamp entries: each reads the gradients once for the norms and touches them once more.
// Scaling is always written, as in torch: to skip it would mean to wait for the norm.
#include <numeric>

#include "baselines/clippers.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

constexpr double kNormEpsilon = 1e-6;     // torch's clip_grad_norm_ adds it to the norm …
constexpr double kAgcNormEpsilon = 1e-6;  // … and AGC as in timm divides by no gradient norm below it

// min(1, max_norm / (norm + 1e-6)), 0-d; NaN for a NaN norm. A reciprocal times max_norm, because that is what Python's
// division of a number by a tensor does: equal bits.
at::Tensor norm_coefficient(const at::Tensor& norm, double max_norm) {
  return (norm + kNormEpsilon).reciprocal_().mul_(max_norm).clamp_max_(1.0);
}

// What they share: the gradients of this step and their norms, then the clip of one kind.
class ElementaryClipper : public GradientClipper {
 public:
  ElementaryClipper(const NamedTensors& parameters, const GradientClipOptions& options)
      : GradientClipper(parameters), options_(options) {}

  at::Tensor clip(const std::vector<at::Tensor>& values) final {
    const at::NoGradGuard no_grad;
    require_values(values, parameters());
    Tensors owners, present;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i].defined()) continue;
      owners.push_back(parameters()[i]);
      present.push_back(values[i]);
    }
    const Tensors norms = norms_of(present);
    const at::Tensor total = combine_norms(norms);
    apply(owners, present, norms, total);
    return total;
  }

 protected:
  using Tensors = std::vector<at::Tensor>;
  // gradients[i] and norms[i] belong to parameters[i].
  virtual void apply(const Tensors& parameters, const Tensors& gradients, const Tensors& norms,
                     const at::Tensor& total) {
    (void)parameters, (void)gradients, (void)norms, (void)total;
  }
  GradientClipOptions options_;
};

class GlobalNormClipper final : public ElementaryClipper {
 public:
  using ElementaryClipper::ElementaryClipper;
  [[nodiscard]] bool is_separable() const override { return false; }

 private:
  void apply(const Tensors&, const Tensors& gradients, const Tensors&, const at::Tensor& total) override {
    const at::Tensor coefficient = norm_coefficient(total, options_.max_norm);
    for (const at::Tensor& gradient : gradients) {
      gradient.mul_(coefficient.to(gradient.device(), /*non_blocking=*/true));
    }
  }
};

class LayerNormClipper final : public ElementaryClipper {
  using ElementaryClipper::ElementaryClipper;
  void apply(const Tensors&, const Tensors& gradients, const Tensors& norms, const at::Tensor&) override {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].mul_(norm_coefficient(norms[i], options_.max_norm));
  }
};

class CoordinateClipper final : public ElementaryClipper {
  using ElementaryClipper::ElementaryClipper;
  void apply(const Tensors&, const Tensors& gradients, const Tensors&, const at::Tensor&) override {
    for (const at::Tensor& gradient : gradients) gradient.clamp_(-options_.max_value, options_.max_value);
  }
};

// Norm of each unit: over all axes but the first, kept as axes of size 1; of the whole for vectors and scalars.
at::Tensor unit_norms(const at::Tensor& tensor) {
  if (tensor.dim() <= 1) return at::linalg_vector_norm(tensor);
  std::vector<std::int64_t> axes(static_cast<std::size_t>(tensor.dim() - 1));
  std::iota(axes.begin(), axes.end(), 1);
  return at::linalg_vector_norm(tensor, 2, axes, /*keepdim=*/true);
}

class AgcClipper final : public ElementaryClipper {
  using ElementaryClipper::ElementaryClipper;
  void apply(const Tensors& parameters, const Tensors& gradients, const Tensors&, const at::Tensor&) override {
    for (std::size_t i = 0; i < gradients.size(); ++i) clip_units(parameters[i], gradients[i]);
  }
  void clip_units(const at::Tensor& parameter, const at::Tensor& gradient) const {
    const at::Tensor limit = unit_norms(parameter).clamp_min_(options_.agc_epsilon).mul_(options_.agc_factor);
    const at::Tensor norm = unit_norms(gradient);
    gradient.mul_(limit.div_(norm.clamp_min_(kAgcNormEpsilon)).clamp_max_(1.0));
  }
};

}  // namespace

std::unique_ptr<GradientClipper> make_elementary_clipper(const NamedTensors& parameters,
                                                         const GradientClipOptions& options) {
  switch (options.kind) {
    case GradientClip::global_norm:
      return std::make_unique<GlobalNormClipper>(parameters, options);
    case GradientClip::layer_norm:
      return std::make_unique<LayerNormClipper>(parameters, options);
    case GradientClip::agc:
      return std::make_unique<AgcClipper>(parameters, options);
    case GradientClip::coordinate:
      return std::make_unique<CoordinateClipper>(parameters, options);
    default:
      return std::make_unique<ElementaryClipper>(parameters, options);
  }
}

}  // namespace spectralclip::torch

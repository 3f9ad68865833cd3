// SPDX-License-Identifier: Apache-2.0
// Soft clipping of gradients (before the optimizer) and of updates (after it): the two SPECTRA variants.
#include <algorithm>
#include <cmath>
#include <utility>

#include "baselines/clippers.h"
#include "baselines/soften.h"
#include "require.h"
#include "tensor/gradients.h"
#include "tensor/scalar_type.h"

namespace spectralclip::torch {
namespace {

class SoftClipper final : public GradientClipper {
 public:
  SoftClipper(const NamedTensors& parameters, const GradientClipOptions& options)
      : GradientClipper(parameters), options_(options), layers_(matrix_parameters(parameters, options.spectral)) {
    for (const MatrixParameter& layer : layers_) places_.push_back(place_of(layer.tensor));
  }

  at::Tensor clip(const std::vector<at::Tensor>& values) override {
    const at::NoGradGuard no_grad;
    require_values(values, parameters());
    std::vector<at::Tensor> present;
    for (const at::Tensor& value : values) {
      if (value.defined()) present.push_back(value);
    }
    const at::Tensor total = combine_norms(norms_of(present));
    std::vector<MatrixParameter> layers;
    std::vector<at::Tensor> matrices;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const at::Tensor& value = values[places_[i]];
      if (!value.defined()) continue;
      layers.push_back(layers_[i]);
      matrices.push_back(value);
    }
    soften_inplace(matrices, layers, options_.soft_scale, options_.spectral.backend);
    return total;
  }

 private:
  [[nodiscard]] std::size_t place_of(const at::Tensor& tensor) const {
    const auto found = std::find_if(parameters().begin(), parameters().end(),
                                    [&](const at::Tensor& parameter) { return parameter.is_same(tensor); });
    return static_cast<std::size_t>(found - parameters().begin());
  }

  GradientClipOptions options_;
  std::vector<MatrixParameter> layers_;
  std::vector<std::size_t> places_;  // of layers_ among parameters()
};

// Memory: one copy of the matrices, kept from step to step, and the updates of one step.
class SoftUpdateClipper final : public GradientClipper {
 public:
  SoftUpdateClipper(const NamedTensors& parameters, const GradientClipOptions& options)
      : GradientClipper(parameters),
        options_(options),
        layers_(matrix_parameters(parameters, options.spectral)),
        before_(layers_.size()) {}

  at::Tensor before_step() override {
    const at::NoGradGuard no_grad;
    moving_.clear();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].tensor.grad().defined()) remember(i);
    }
    armed_ = true;
    return combine_norms(norms_of(gradients_of(parameters())));
  }

  at::Tensor clip(const std::vector<at::Tensor>&) override {
    throw InvalidArgument("soft_update clips after the optimizer's step; give updates to a clipper of kind soft");
  }

  void after_step(double lr) override {
    SPECTRALCLIP_REQUIRE(lr >= 0 && std::isfinite(lr), "lr = ", lr, " must be finite and >= 0");
    SPECTRALCLIP_REQUIRE(armed_, "after_step without a before_step: the parameters before the step are not known");
    armed_ = false;
    if (lr == 0) return;
    const at::NoGradGuard no_grad;
    soften_updates(lr);
  }

 private:
  void remember(std::size_t i) {
    const at::Tensor& now = layers_[i].tensor;
    if (before_[i].defined() && before_[i].scalar_type() == now.scalar_type() && before_[i].device() == now.device()) {
      before_[i].copy_(now);
    } else {
      before_[i] = now.detach().clone();
    }
    moving_.push_back(i);
  }

  // D = (new - old) / lr, in float32 for the 16-bit types, where the difference of two parameters keeps few digits.
  [[nodiscard]] at::Tensor update_of(std::size_t i, double lr) const {
    const at::Tensor& now = layers_[i].tensor;
    return now.detach().to(work_type(now.scalar_type())).sub(before_[i]).div_(lr);
  }

  // p += lr (soft(D) - D), which is old + lr soft(D), but keeps the bits of p where nothing is softened. Entries of D
  // that are not finite belong to matrices that were left alone.
  void soften_updates(double lr) const {
    std::vector<at::Tensor> updates, softened;
    std::vector<MatrixParameter> layers;
    for (const std::size_t i : moving_) {
      updates.push_back(update_of(i, lr));
      softened.push_back(updates.back().clone());
      layers.push_back(layers_[i]);
    }
    soften_inplace(softened, layers, options_.soft_scale, options_.spectral.backend);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const at::Tensor change = softened[i].sub_(updates[i]).masked_fill_(updates[i].isfinite().logical_not_(), 0);
      layers[i].tensor.detach().add_(change, lr);
    }
  }

  GradientClipOptions options_;
  std::vector<MatrixParameter> layers_;
  std::vector<at::Tensor> before_;   // of layers_, as of the latest before_step that saw a gradient
  std::vector<std::size_t> moving_;  // layers with a gradient in this step
  bool armed_ = false;
};

}  // namespace

std::unique_ptr<GradientClipper> make_soft_clipper(const NamedTensors& parameters, const GradientClipOptions& options) {
  return std::make_unique<SoftClipper>(parameters, options);
}

std::unique_ptr<GradientClipper> make_soft_update_clipper(const NamedTensors& parameters,
                                                          const GradientClipOptions& options) {
  return std::make_unique<SoftUpdateClipper>(parameters, options);
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// The spectral clipper behind the common interface: it forwards.
#include <algorithm>
#include <utility>

#include "baselines/clippers.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

class SpectralGradientClipper final : public GradientClipper {
 public:
  SpectralGradientClipper(const NamedTensors& parameters, const SpectralClipperOptions& options)
      : GradientClipper(parameters), options_(options), clipper_(distinct_parameters(parameters), options) {}

  at::Tensor clip(const std::vector<at::Tensor>& values) override { return clipper_.step(values); }
  // One at a time on the CPU: on a device layers of equal shape are batched.
  [[nodiscard]] bool is_separable() const override {
    return options_.backend != Backend::aten &&
           std::all_of(parameters().begin(), parameters().end(), [](const at::Tensor& p) { return p.is_cpu(); });
  }
  at::Tensor clip_one(std::size_t parameter, const at::Tensor& value) override {
    return clipper_.step_parameter(parameter, value);
  }
  [[nodiscard]] SpectralClipper* spectral() noexcept override { return &clipper_; }
  [[nodiscard]] std::vector<std::uint8_t> serialize() const override { return clipper_.serialize(); }
  void deserialize(std::span<const std::uint8_t> bytes) override { clipper_.deserialize(bytes); }

 private:
  SpectralClipperOptions options_;
  SpectralClipper clipper_;
};

}  // namespace

std::unique_ptr<GradientClipper> make_spectral_clipper(const NamedTensors& parameters,
                                                       const GradientClipOptions& options) {
  return std::make_unique<SpectralGradientClipper>(parameters, options.spectral);
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// The spectral clipper behind the common interface: it forwards.
#include <utility>

#include "baselines/clippers.h"

namespace spectralclip::torch {
namespace {

class SpectralGradientClipper final : public GradientClipper {
 public:
  SpectralGradientClipper(const NamedTensors& parameters, const SpectralClipperOptions& options)
      : clipper_(parameters, options) {}

  at::Tensor before_step() override { return clipper_.step(); }
  [[nodiscard]] SpectralClipper* spectral() noexcept override { return &clipper_; }
  [[nodiscard]] std::vector<std::uint8_t> serialize() const override { return clipper_.serialize(); }
  void deserialize(std::span<const std::uint8_t> bytes) override { clipper_.deserialize(bytes); }

 private:
  SpectralClipper clipper_;
};

}  // namespace

std::unique_ptr<GradientClipper> make_spectral_clipper(const NamedTensors& parameters,
                                                       const GradientClipOptions& options) {
  return std::make_unique<SpectralGradientClipper>(parameters, options.spectral);
}

}  // namespace spectralclip::torch

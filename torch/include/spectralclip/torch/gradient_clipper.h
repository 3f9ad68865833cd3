// SPDX-License-Identifier: Apache-2.0
// One option switches among the clippers that people compare: a training loop calls before_step() and after_step()
// around the optimizer's step and need not know which it got.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

enum class GradientClip : std::uint8_t {
  none = 0,
  global_norm = 1,  // all gradients times min(1, max_norm / total norm): torch's clip_grad_norm_
  layer_norm = 2,   // each gradient times min(1, max_norm / its norm)
  agc = 3,          // each unit's gradient norm at most agc_factor times its weight norm (Brock et al. 2021)
  coordinate = 4,   // each entry clamped to [-max_value, max_value]
  spectral = 5,     // C_tau with constant, EMA or quantile thresholds
  soft = 6,         // (I + G G^T / c^2)^-1/2 G of each gradient matrix, before the optimizer
  soft_update = 7   // the same of each update matrix, after the optimizer
};
[[nodiscard]] const char* to_string(GradientClip kind) noexcept;
[[nodiscard]] GradientClip parse_gradient_clip(std::string_view name);  // throws InvalidArgument listing the names

struct GradientClipOptions {
  GradientClip kind = GradientClip::spectral;
  double max_norm = 1.0;     // global_norm, layer_norm
  double agc_factor = 0.01;  // agc …
  double agc_epsilon = 1e-3;
  double max_value = 1.0;              // coordinate
  double soft_scale = 1.0;             // soft, soft_update: c
  SpectralClipperOptions spectral{};   // spectral; its rules also say which parameters soft and soft_update leave alone
};
void validate(const GradientClipOptions& options);

class GradientClipper {
 public:
  virtual ~GradientClipper() = default;
  // After backward, before the optimizer. Returns the total norm before clipping (0-d, on the device).
  virtual at::Tensor before_step() = 0;
  // After the optimizer; lr is the rate it used (soft_update clips (new - old) / lr). Others do nothing.
  virtual void after_step(double lr) { (void)lr; }
  // The spectral clipper inside, for its report; null for the other kinds.
  [[nodiscard]] virtual SpectralClipper* spectral() noexcept { return nullptr; }
  [[nodiscard]] virtual std::vector<std::uint8_t> serialize() const { return {}; }
  virtual void deserialize(std::span<const std::uint8_t> bytes) { (void)bytes; }
};

[[nodiscard]] std::unique_ptr<GradientClipper> make_gradient_clipper(const NamedTensors& parameters,
                                                                     const GradientClipOptions& options);

}  // namespace spectralclip::torch

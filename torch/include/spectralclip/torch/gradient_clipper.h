// SPDX-License-Identifier: Apache-2.0
// One option switches among the clippers that people compare: a training loop calls before_step() and after_step()
// around the optimizer's step and need not know which it got.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

enum class GradientClip : std::uint8_t {
  none = 0,
  global_norm = 1,  // all gradients times min(1, max_norm / total norm): torch's clip_grad_norm_
  layer_norm = 2,   // each gradient, vectors too, times min(1, max_norm / its norm)
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
  double max_norm = 1.0;      // global_norm, layer_norm: in [0, infinity]
  double agc_factor = 0.01;   // agc: finite, > 0 …
  double agc_epsilon = 1e-3;  // … least weight norm, so that a zero weight can start to move: finite, >= 0
  double max_value = 1.0;     // coordinate: in [0, infinity]
  double soft_scale = 1.0;    // soft, soft_update: c, finite, > 0
  // spectral. Its rules and backend also serve soft and soft_update, which take what the rules call spectral and leave
  // the rest (vectors, embeddings, heads) alone.
  SpectralClipperOptions spectral = {};
};
// Throws InvalidArgument naming the option, its value and its range; options of the other kinds are checked too.
void validate(const GradientClipOptions& options);

class GradientClipper {
 public:
  virtual ~GradientClipper() = default;
  // The parameters it was made for, tied ones once.
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  // After backward, before the optimizer. Returns the total norm before clipping: 0-d, on the first gradient's device
  // and not waited for; a CPU zero without gradients. Absent gradients are ignored; non-finite ones do what they do in
  // torch (global_norm spreads them), except that spectral and soft leave such a matrix alone. What cannot be written
  // (an expanded gradient) is refused before anything is.
  virtual at::Tensor before_step();
  // The same of other values than the gradients, updates for instance: values[i], of the shape of parameters()[i], in
  // place; undefined ones are absent.
  virtual at::Tensor clip(const std::vector<at::Tensor>& values) = 0;
  // Whether values may come one at a time, through clip_one() instead of clip(), with the same result; a total norm
  // needs all of them.
  [[nodiscard]] virtual bool is_separable() const { return true; }
  virtual at::Tensor clip_one(std::size_t parameter, const at::Tensor& value);
  // After the optimizer; lr is the rate it used (soft_update softens (new - old) / lr, nothing for lr = 0). Others do
  // nothing.
  virtual void after_step(double lr) { (void)lr; }
  // The spectral clipper inside, for its report; null for the other kinds.
  [[nodiscard]] virtual SpectralClipper* spectral() noexcept { return nullptr; }
  // What must survive a checkpoint: the spectral clipper's state, nothing for the other kinds. Loading throws
  // StateFileError when the bytes are another kind's.
  [[nodiscard]] virtual std::vector<std::uint8_t> serialize() const { return {}; }
  virtual void deserialize(std::span<const std::uint8_t> bytes);

 protected:
  explicit GradientClipper(const NamedTensors& parameters);

 private:
  std::vector<at::Tensor> parameters_;
};

// Keeps the parameters (not copies of them); tied tensors count once.
[[nodiscard]] std::unique_ptr<GradientClipper> make_gradient_clipper(const NamedTensors& parameters,
                                                                     const GradientClipOptions& options);

}  // namespace spectralclip::torch

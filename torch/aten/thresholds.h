// SPDX-License-Identifier: Apache-2.0
// The thresholds of a batch of layers with equal options, on their device: the same arithmetic as src/threshold/, by
// masks. States move to and from the core's form for checkpoints (that copy waits for the device; steps do not).
// Equal to the core to the bit, except that the EMA's bias correction takes expm1 from the device: a few eps.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "spectralclip/threshold.h"

namespace spectralclip::torch::aten {

class BatchThresholds {
 public:
  BatchThresholds(const ThresholdOptions& options, std::int64_t layers, const at::Device& device);

  [[nodiscard]] at::Tensor tau() const;  // L, float64; infinity where the coming gradient is to be left unclipped
  // Whether tau() could hold a zero, as far as options tell; clip_batch asks.
  [[nodiscard]] bool may_be_zero() const noexcept;
  // values: L, float64. seen: L, bool: which of them count (finite gradients of layers that had one). As in the core,
  // values that are negative, not finite, or zero (unless observe_zeros) are not recorded.
  void observe(const at::Tensor& values, const at::Tensor& seen);

  [[nodiscard]] std::vector<ThresholdState> to_states() const;
  void from_states(const std::vector<ThresholdState>& states);  // throws InvalidArgument on a state that does not fit

 private:
  [[nodiscard]] at::Tensor corrected_average() const;
  [[nodiscard]] at::Tensor window_quantile() const;
  void slide_window(const at::Tensor& values, const at::Tensor& recorded);

  ThresholdOptions options_;
  at::Tensor observed_;  // L, int64
  at::Tensor average_;   // L, float64
  at::Tensor window_;    // L x window, float64, infinity where empty; slot observed % window is written next
};

}  // namespace spectralclip::torch::aten

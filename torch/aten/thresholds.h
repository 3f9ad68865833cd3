// SPDX-License-Identifier: Apache-2.0
// The thresholds of a batch of layers with equal options, on their device: the same arithmetic as src/threshold/, by
// masks. States move to and from the core's form for checkpoints (that copy waits for the device; steps do not).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "spectralclip/threshold.h"

namespace spectralclip::torch::aten {

class BatchThresholds {
 public:
  BatchThresholds(const ThresholdOptions& options, std::int64_t layers, const at::Device& device);

  [[nodiscard]] at::Tensor tau() const;  // L, float64; infinity where the coming gradient is to be left unclipped
  // values: L, float64. seen: L, bool: which of them count (finite gradients of layers that had one).
  void observe(const at::Tensor& values, const at::Tensor& seen);

  [[nodiscard]] std::vector<ThresholdState> to_states() const;
  void from_states(const std::vector<ThresholdState>& states);

 private:
  ThresholdOptions options_;
  at::Tensor observed_;  // L, int64
  at::Tensor average_;   // L, float64
  at::Tensor window_;    // L x window, float64, infinity where empty; slot observed % window is written next
};

}  // namespace spectralclip::torch::aten

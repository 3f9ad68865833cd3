// SPDX-License-Identifier: Apache-2.0
// What depends on how matrices are stored, and small tensors made on a device without a copy from the host.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "clip/dead_band.h"
#include "tensor/scalar_type.h"

namespace spectralclip::torch::aten {

// Smallest power of two that is not below x (within one step); 1 where x is zero or not finite. x: float64.
[[nodiscard]] inline at::Tensor power_of_two_above(const at::Tensor& x) {
  const at::Tensor exponent = at::ceil(at::log2(x)).clamp(-1000, 1000);
  return at::exp2(at::where(at::isfinite(x).logical_and_(x > 0), exponent, 0.0));
}

// Whole numbers, one operator each: a copy from the host would wait for the device, and a fake tensor takes none.
[[nodiscard]] inline at::Tensor whole_numbers(const std::vector<std::int64_t>& values, const at::Device& device) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t value : values) parts.push_back(at::full({1}, value, at::dtype(at::kLong).device(device)));
  return at::cat(parts);
}

}  // namespace spectralclip::torch::aten

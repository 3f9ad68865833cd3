// SPDX-License-Identifier: Apache-2.0
// Storage and work types of a tensor, as the core names them.
#pragma once

#include <ATen/ATen.h>

#include "clip/dead_band.h"
#include "spectralclip/matrix.h"

namespace spectralclip::torch::aten {

[[nodiscard]] inline ScalarType storage_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return ScalarType::float64;
    case at::kBFloat16:
      return ScalarType::bfloat16;
    case at::kHalf:
      return ScalarType::float16;
    default:
      return ScalarType::float32;
  }
}

// float64 for float64, float32 for all else.
[[nodiscard]] inline at::ScalarType work_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// Smallest power of two that is not below x (within one step); 1 where x is zero or not finite. x: float64.
[[nodiscard]] inline at::Tensor power_of_two_above(const at::Tensor& x) {
  const at::Tensor exponent = at::ceil(at::log2(x)).clamp(-1000, 1000);
  return at::exp2(at::where(at::isfinite(x).logical_and_(x > 0), exponent, 0.0));
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
// Random columns made on the device by integer arithmetic from an address: seed, matrix, step, pass, position. Never
// from torch's generator, so a resumed run, another rank and a captured graph draw the same numbers. The distribution
// is the core's (uniform on (-sqrt 3, sqrt 3), random/uniform.h); the bits are not: the core's Philox takes ten rounds
// of two products each, of which both halves are needed; SplitMix64 takes two products that wrap around.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "aten/clip.h"

namespace spectralclip::torch::aten {

// One number per matrix from seed and id: L, int64.
[[nodiscard]] at::Tensor stream_keys(const BatchStream& stream, const at::Device& device);

// L x n x k in float64. keys, steps: L, int64.
[[nodiscard]] at::Tensor random_columns(const at::Tensor& keys, const at::Tensor& steps, std::int64_t pass,
                                        std::int64_t n, std::int64_t k);

}  // namespace spectralclip::torch::aten

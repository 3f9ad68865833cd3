// SPDX-License-Identifier: Apache-2.0
// Random columns made on the device by integer arithmetic from an address: seed, matrix, step, position. Never
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

// Where an entry stands in its matrix of random rows: 1 x k x n, int64. An address does not depend on k or n.
[[nodiscard]] at::Tensor row_positions(std::int64_t k, std::int64_t n, const at::Device& device);

// L x k x n in float64. keys, steps: L, int64. 23 operators.
[[nodiscard]] at::Tensor random_rows(const at::Tensor& keys, const at::Tensor& steps, const at::Tensor& positions);

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
// The soft clip sigma -> sigma / sqrt(1 + sigma^2 / c^2) of tensors: which are matrices, and two ways to do it.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "spectralclip/rules.h"
#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

struct MatrixParameter {
  at::Tensor tensor;
  Matricized shape;  // count matrices of rows x cols
};

// Parameters that options.rules, then default_rules(), call spectral, each tensor once. Throws InvalidArgument for an
// unsupported type, and for Backend::core on another device than the CPU.
[[nodiscard]] std::vector<MatrixParameter> matrix_parameters(const NamedTensors& parameters,
                                                             const SpectralClipperOptions& options);

// Softens values[i], of the shape of layers[i].tensor, in place; strides are kept. A matrix with NaN or Inf keeps its
// bits. CPU: the core's float64 factorisations, over torch's threads; elsewhere, and for Backend::aten, by products.
void soften_inplace(const std::vector<at::Tensor>& values, const std::vector<MatrixParameter>& layers, double c,
                    Backend backend);

// G: L x m x n on any device. Returns the softened matrices in G's type. Products only: nothing waits for the device.
// Cost, k = min(m, n): 4 m n k + 20 * 6 k^3 flops per matrix in float64 (13 rounds of float32 on Apple's devices,
// which have no float64).
// Error, measured at k = 60 and 300, relative to the result: 2e-17 (sigma_max / c)^2 in float64, 6e-9 of it in float32.
// Beyond sigma_max / c = 3e6 (float32: 1e3) the identity in I + G G^T / c^2 drowns in rounding; there the singular
// values above sigma_max / 3e6 still become c and smaller ones come out too small.
[[nodiscard]] at::Tensor soften_by_products(const at::Tensor& G, double c);

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// One pass over a batch and the triplets it gives (docs/numerics.md, section 2). Everything is in units in which the
// matrices have a norm of about one: `scale` is a power of two per matrix, so that squares of float32 neither overflow
// nor vanish. Skinny matrices are float64; only products with G itself are made in the work type.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "aten/matrix_batch.h"
#include "aten/small_factors.h"

namespace spectralclip::torch::aten {

struct ScaledBatch {
  const MatrixBatch& matrices;
  at::Tensor norm;    // L: Frobenius
  at::Tensor finite;  // L, bool
  at::Tensor scale;   // L: what the matrices are multiplied by in thought
};
[[nodiscard]] ScaledBatch measure(const MatrixBatch& matrices);

// V: L x n x k, orthonormal or zero columns. Zero where the matrix is not finite. 4 m n k flops a matrix.
struct Products {
  at::Tensor V;
  at::Tensor W;  // L x m x k: G V
  at::Tensor Z;  // L x n x k: G^T W
};
[[nodiscard]] Products run_pass(const ScaledBatch& batch, const at::Tensor& V);

struct Ritz {
  at::Tensor sigma;        // L x k, descending; zero beyond the independent ones
  at::Tensor Y;            // L x n x k: right vectors
  at::Tensor sine;         // L x k: of the angle between a right vector and the span of V
  at::Tensor independent;  // L, float64: how many columns of W are
  at::Tensor weakest;      // L (small_factors.h)
  at::Tensor probe;        // L: bound on the largest eigenvalue of the probe; undefined without fresh columns
};

// fresh_factor: f x f lower triangular T_f with (deflated fresh columns) = (last f columns of V) T_f^T; undefined when
// V has no fresh columns. drop: as in the core. sweeps: of the eigenvalue iteration (small_factors.h).
[[nodiscard]] Ritz solve_ritz(const Products& products, const at::Tensor& fresh_factor, double drop,
                              std::int64_t sweeps);

}  // namespace spectralclip::torch::aten

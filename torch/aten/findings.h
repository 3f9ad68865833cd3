// SPDX-License-Identifier: Apache-2.0
// What a pass over a batch tells, as matrices: no eigenpairs (docs/numerics.md, section 9). The pure counterpart of the
// core's ritz.h and decide.h; everything is k x k in float64 but for B.
#pragma once

#include <ATen/ATen.h>

#include "aten/small_factors.h"
#include "aten/subspace_work.h"

namespace spectralclip::torch::aten {

// With the contraction Q = W^T inverse^T: B = Q^T G, G^T G = B^T B + H^T H exactly.
struct Projection {
  RidgeCholesky factor;  // of W W^T
  at::Tensor B;          // L x k x n
  at::Tensor A;          // L x k x k: B B^T; its eigenvalues are the squares of the values found
  at::Tensor trace;      // L: of A
  at::Tensor gain;       // L: how much relative rounding of rows of W may grow in rows of B
};
[[nodiscard]] Projection project(const SkinnyRows& rows, const SubspaceWork& work);

// The k x k identity for that many rows.
[[nodiscard]] at::Tensor identity_of(const SkinnyRows& rows, const SubspaceWork& work);

// `count` rows for the next pass or step, roughly right singular vectors, largest first. Those that rounding swamped,
// after a spike that is much larger than the rest, give way to the rows of V that they came from.
[[nodiscard]] at::Tensor next_rows(const Projection& projection, const SkinnyRows& rows, const SubspaceWork& work,
                                   std::int64_t count, int steps);

// The part that the rows did not hold: H = (I - Q Q^T)^(1/2) G.
struct Unseen {
  at::Tensor
      residual;  // L x k x k: what of B B^T lies outside the span of V; couplings E to H obey E E^T <= ||H||^2 residual
  at::Tensor complete;           // L, bool: the rows span everything
  at::Tensor certain;            // L, bool: the bound is the energy that was not captured; else Theorem 2
  at::Tensor squared;            // L: ||H||^2 is at most this …
  at::Tensor typical;            // L: … and as a scale for convergence, without the factor of safety
  at::Tensor sigma_max_squared;  // L: largest eigenvalue of A
};
[[nodiscard]] Unseen look_at_unseen(const Projection& projection, const SkinnyRows& rows, const SubspaceWork& work,
                                    const at::Tensor& norm);

// What is to be lowered, as functions of A: zero where nothing is above `level`.
struct Lowering {
  at::Tensor level_squared;  // L
  at::Tensor count;          // L, whole numbers: values above the level that are lowered
  at::Tensor beyond;         // L, bool: there are more than `rank` of them
  at::Tensor any;            // L, bool
  at::Tensor M;              // L x k x k: 1 - tau / sigma above the level, 0 below
  at::Tensor E;              // I - M
};
// tau: L, > 0 or infinity; band: relative distance of the level; rank: most values to lower, 0 for all. Where there are
// more, those of the `rank` leading rows of A: largest values as far as they differ.
[[nodiscard]] Lowering lower_above(const Projection& projection, const at::Tensor& tau, double band, std::int64_t rank,
                                   const SubspaceWork& work);

}  // namespace spectralclip::torch::aten

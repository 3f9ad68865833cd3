// SPDX-License-Identifier: Apache-2.0
// What the subspace method of a batch keeps from step to step beside its state: buffers with the parts of every matrix,
// and constants, made once on the device without a copy from the host.
#pragma once

#include <cstdint>
#include <vector>

#include "aten/matrix_batch.h"
#include "aten/small_factors.h"
#include "spectralclip/options.h"

namespace spectralclip::torch::aten {

struct SubspaceWork {
  SubspaceWork(const std::vector<at::Tensor>& matrices, const ClipOptions& options);
  [[nodiscard]] bool fits(const std::vector<at::Tensor>& matrices) const;

  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t kept;       // vectors carried to the next step
  SkinnyRows first, last;  // rows of a pass: kept and fresh; all of those and fresh ones again
  at::Tensor identity;     // k x k, k rows in the last pass
  at::Tensor positions;    // 1 x 2 f x n: addresses of the fresh rows of a step
  at::Tensor spread;       // L x 1 x n: 1 / sqrt(n_i) within matrix i, zero beyond
  at::Tensor smaller;      // L: min(m_i, n_i)
  at::Tensor probe;        // L: n_i / r^2 (subspace/certificate.h)
  at::Tensor unprobed;     // L: infinity where the sides leave no room for all rows, and Theorem 2 says nothing; else 0
  at::Tensor within;       // L x k x 1: 1 for rows up to the smaller side, 0 beyond: those would be rounding
  at::Tensor fade;         // k x 1: rows that rounding swamped come back in their old order
  InverseRoot sign, root;  // of C^2; of what is above the level, in units of tau^2
};

}  // namespace spectralclip::torch::aten

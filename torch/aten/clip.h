// SPDX-License-Identifier: Apache-2.0
// Clipping by ATen operators: a batch of equal matrices on any device with float64. No operator here waits for the
// device, none has a shape that depends on data, nothing is allocated by value of a tensor: it can be captured,
// compiled and faked (exhausted = go_exact excepted). What the core decides by looking (how many passes, how wide a
// subspace, whether to write) is fixed here or done by masks.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "spectralclip/options.h"

namespace spectralclip::torch::aten {

// Vectors that `tracked` keeps when no rank is given; more values above tau than this are reported, not clipped.
// Measured on recorded gradients and generated sequences (docs/numerics.md, section 9).
inline constexpr std::int64_t kKeptColumns = 8;

// What a batch remembers between steps, on its device. Undefined tensors until the first step.
struct BatchSubspace {
  at::Tensor V;      // L x n x kept, orthonormal columns, largest first (work type); zero columns where none was found
  at::Tensor steps;  // L, int64: finite gradients seen so far; part of the address of the random columns
  at::Tensor keys;   // L, int64: the rest of the address, from BatchStream; made when undefined, not worth saving
};

// Addresses of the random columns: seed and one id per matrix, as in the core (random/stream.h).
struct BatchStream {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> matrix_ids;  // L
};

// matrices: L tensors of m x n (equal shape, type and device; any strides), clipped in place. tau: L, float64, >= 0 or
// infinity, on the same device. Returns L x kReportFields in float64 (report_fields.h) on that device.
//   tracked, automatic: two passes with the kept vectors (rank of them, or kKeptColumns) and kFreshColumns fresh ones,
//                       four when `state` is new
//   sketched:           1 + power_passes passes from a cold start with rank + oversampling columns
//   exact, gram, newton_schulz: C_tau by two polar iterations in float64, products only
// The status is the core's promise (report.h): what two passes cannot prove is not_converged. With exhausted = go_exact
// those matrices are then clipped by the dense method, for which the call waits for the device, once; otherwise nothing
// waits. max_passes, max_columns and measure_time have no effect here, tolerance only on the status.
// A matrix with NaN or Inf, or with nothing above tau, keeps its bits. tau = 0 erases; a caller who knows that tau
// cannot be zero (BatchThresholds::may_be_zero) saves a read and a write of every matrix. observe_only writes nothing.
[[nodiscard]] at::Tensor clip_batch(const std::vector<at::Tensor>& matrices, const at::Tensor& tau,
                                    const ClipOptions& options, const BatchStream& stream, BatchSubspace& state,
                                    bool tau_may_be_zero = true);

// Norm clipping of L tensors of any shapes on one device: what vectors get.
[[nodiscard]] at::Tensor clip_norms(const std::vector<at::Tensor>& tensors, const at::Tensor& tau, bool write);

}  // namespace spectralclip::torch::aten

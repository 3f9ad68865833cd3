// SPDX-License-Identifier: Apache-2.0
// Clipping by ATen operators: a batch of matrices on any device with float64. No operator here waits for the device,
// none has a shape that depends on data, nothing is allocated by value of a tensor: it can be captured, compiled and
// faked (exhausted = go_exact excepted). What the core decides by looking (how many passes, how wide a subspace,
// whether to write) is fixed here or done by masks.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "spectralclip/options.h"

namespace spectralclip::torch::aten {

struct SubspaceWork;

// What a batch remembers between steps, on its device. Undefined tensors until the first step.
struct BatchSubspace {
  at::Tensor V;      // L x kept x n (of the widest), float32: unit rows, largest first; zero where none is known
  at::Tensor steps;  // L, int64: finite gradients seen so far; part of the address of the random columns
  at::Tensor keys;   // L, int64: the rest of the address, from BatchStream; made when undefined, not worth saving
  std::shared_ptr<SubspaceWork> work;  // buffers and constants of this batch; made when they do not fit
};

// Addresses of the random columns: seed and one id per matrix, as in the core (random/stream.h).
struct BatchStream {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> matrix_ids;  // L
};

// Throws InvalidArgument with the reason when this path cannot do what the options ask for.
void require_honoured(const ClipOptions& options);

// Whether matrices of these shapes may be in one batch: similar ones for `tracked`, equal ones where they are stacked.
[[nodiscard]] bool batch_together(const ClipOptions& options, at::IntArrayRef a, at::IntArrayRef b);

// matrices: L tensors m x n (of shapes that batch_together, equal type and device; any strides), clipped in place. tau:
// L, float64, >= 0 or infinity, on the same device. Returns L x kReportFields in float64 (report_fields.h) on that
// device.
//   tracked, automatic: two passes with device_columns kept vectors and fresh ones, four (of max_passes) from a cold
//   start exact, gram, newton_schulz: C_tau by two polar iterations in float64, products only
// The status is the core's promise (report.h): what two passes cannot prove is not_converged. With exhausted = go_exact
// those matrices are then clipped by the dense method, for which the call waits for the device, once; otherwise nothing
// waits. A matrix with NaN or Inf, or with nothing above tau, keeps its bits. tau = 0 erases; a caller who knows that
// tau cannot be zero (BatchThresholds::may_be_zero) saves a read and a write of every matrix. observe_only writes
// nothing.
[[nodiscard]] at::Tensor clip_batch(const std::vector<at::Tensor>& matrices, const at::Tensor& tau,
                                    const ClipOptions& options, const BatchStream& stream, BatchSubspace& state,
                                    bool tau_may_be_zero = true);

// Norm clipping of L tensors of any shapes on one device: what vectors get.
[[nodiscard]] at::Tensor clip_norms(const std::vector<at::Tensor>& tensors, const at::Tensor& tau, bool write);

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
// `tracked` and `sketched` for a batch: passes, triplets, the update from the right, the certificate.
#pragma once

#include "aten/batch_report.h"
#include "aten/clip.h"
#include "aten/matrix_batch.h"

namespace spectralclip::torch::aten {

// Whether matrices that did not settle are left for a dense method, which takes looking: it waits for the device.
[[nodiscard]] inline bool finishes_dense(const ClipOptions& options) noexcept {
  return options.method != Method::sketched && !options.rank && options.exhausted == Exhausted::go_exact;
}

// tau: L, > 0 or infinity. Writes unless options.observe_only; with finishes_dense() only what settled.
[[nodiscard]] BatchReport clip_by_subspace(const MatrixBatch& matrices, const at::Tensor& tau,
                                           const ClipOptions& options, const BatchStream& stream, BatchSubspace& state);

}  // namespace spectralclip::torch::aten

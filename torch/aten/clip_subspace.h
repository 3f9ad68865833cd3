// SPDX-License-Identifier: Apache-2.0
// `tracked` for a batch: two passes, what they tell, the update from the right, the certificate (docs/numerics.md,
// section 9). The same operators whatever the numbers.
#pragma once

#include "aten/batch_report.h"
#include "aten/clip.h"

namespace spectralclip::torch::aten {

// tau: L, > 0 or infinity. Writes unless options.observe_only; with finishes_dense() only what settled.
[[nodiscard]] BatchReport clip_by_subspace(const std::vector<at::Tensor>& matrices, const at::Tensor& tau,
                                           const ClipOptions& options, const BatchStream& stream, BatchSubspace& state);

// Whether matrices that did not settle are left for a dense method, which takes looking: it waits for the device.
[[nodiscard]] inline bool finishes_dense(const ClipOptions& options) noexcept {
  return options.method != Method::sketched && !options.rank && options.exhausted == Exhausted::go_exact;
}

// Rows that a pass takes beside fresh ones: kept from step to step by `tracked`.
[[nodiscard]] std::int64_t followed_rows(const ClipOptions& options) noexcept;

}  // namespace spectralclip::torch::aten

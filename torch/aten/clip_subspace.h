// SPDX-License-Identifier: Apache-2.0
// `tracked` and `sketched` for a batch: passes, triplets, the update from the right, the certificate.
#pragma once

#include "aten/batch_report.h"
#include "aten/clip.h"
#include "aten/matrix_batch.h"

namespace spectralclip::torch::aten {

// tau: L, > 0 or infinity. Writes unless options.observe_only.
[[nodiscard]] BatchReport clip_by_subspace(const MatrixBatch& matrices, const at::Tensor& tau,
                                           const ClipOptions& options, const BatchStream& stream, BatchSubspace& state);

}  // namespace spectralclip::torch::aten

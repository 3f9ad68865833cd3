// SPDX-License-Identifier: Apache-2.0
// C_tau of a whole batch by products, in float64: what `exact`, `gram` and `newton_schulz` mean where a factorisation
// would have to be waited for.
#pragma once

#include <vector>

#include "aten/batch_report.h"
#include "spectralclip/options.h"

namespace spectralclip::torch::aten {

// L matrices of equal shape; tau: L, > 0 or infinity. Writes only when told to.
[[nodiscard]] BatchReport clip_dense(const std::vector<at::Tensor>& matrices, const at::Tensor& tau, Method method,
                                     bool writes);

}  // namespace spectralclip::torch::aten

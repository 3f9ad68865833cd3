// SPDX-License-Identifier: Apache-2.0
// Norm clipping of a matrix known to be valid; write == false only reports what would be done.
#pragma once

#include "spectralclip/executor.h"
#include "spectralclip/factors.h"
#include "spectralclip/matrix.h"
#include "spectralclip/report.h"

namespace spectralclip {

// Of a matrix of that norm (NaN when an entry is not finite, infinite when the norm is beyond the largest double).
[[nodiscard]] ClipReport scaling_report(double norm, double max_norm, ScalarType type);

ClipReport scale_to_norm(const AnyMatrix& G, double max_norm, bool write, Executor& executor,
                         ClipFactors* factors = nullptr);

}  // namespace spectralclip

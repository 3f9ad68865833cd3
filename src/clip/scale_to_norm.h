// SPDX-License-Identifier: Apache-2.0
// Norm clipping of a matrix known to be valid; write == false only reports what would be done.
#pragma once

#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "spectralclip/report.h"

namespace spectralclip {

ClipReport scale_to_norm(const AnyMatrix& G, double max_norm, bool write, Executor& executor);

}  // namespace spectralclip

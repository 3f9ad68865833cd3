// SPDX-License-Identifier: Apache-2.0
// One matrix, one step: the place where a method is chosen and run. clip_singular_values, MatrixClipper and Clipper
// all end here.
#pragma once

#include "random/stream.h"
#include "spectralclip/executor.h"
#include "spectralclip/factors.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/report.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

// Preconditions (checked by the callers at the public edge): G and options valid, tau >= 0 and not NaN,
// rank <= min(rows, cols). On not_finite and factorization_failed neither G nor state is changed.
ClipReport clip_one(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                    SubspaceState& state, Workspace& workspace, Executor& executor, ClipFactors* factors = nullptr);

}  // namespace spectralclip

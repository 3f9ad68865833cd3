// SPDX-License-Identifier: Apache-2.0
// The methods `tracked` and `sketched`: search the leading triplets, lower those above tau in one read and write,
// certify the rest.
#pragma once

#include <optional>

#include "random/stream.h"
#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/report.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

// nullopt: squares of G overflow or vanish in the work type, or an entry is not finite; nothing was changed.
// options.method is tracked or sketched; tau > 0, infinity only measures.
[[nodiscard]] std::optional<ClipReport> clip_by_subspace(const AnyMatrix& G, double tau, const ClipOptions& options,
                                                         const RandomStream& stream, SubspaceState& state,
                                                         Workspace& workspace, Executor& executor);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// One matrix of one parameter: what it is, how it is clipped and what it remembers. Its counters live in its report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectralclip/clipper.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

struct Layer {
  std::size_t parameter = 0;  // position in the caller's list …
  std::int64_t index = 0;     // … and which of the parameter's matrices this is
  int batch_axes = 0;         // how the rule reads the parameter's axes (rules.h)
  int row_axes = 1;
  std::uint64_t matrix_id = 0;
  ClipOptions clip;  // a fixed rank is at most min(rows, cols) here
  ThresholdOptions threshold;
  ThresholdState threshold_state;
  SubspaceState subspace;
};

// layers[i] belongs to reports[i]; parameters in the caller's order, the matrices of one parameter in theirs.
struct LayerSet {
  std::vector<Layer> layers;
  std::vector<LayerReport> reports;
};

// Applies the rules and appends the layers of these parameters, numbered from `first`. Throws InvalidArgument on bad
// options, bad shapes and names that are not unique; then the set is as it was.
void append_layers(LayerSet& set, const std::vector<Parameter>& parameters, const ClipperOptions& options,
                   std::size_t first = 0);

// Throws InvalidArgument naming the layer unless the gradient is usable as this layer's matrix.
void require_usable(const Gradient& gradient, const Layer& layer, const LayerReport& report);

// The layer's window of a usable gradient.
[[nodiscard]] AnyMatrix matrix_of(const Gradient& gradient, const Layer& layer, const LayerReport& report) noexcept;

// tau, clip, observe, count. A gradient that is not finite changes the report only.
void clip_layer(Layer& layer, LayerReport& report, const AnyMatrix& G, Workspace& workspace, Executor& executor);

// Reads the norm and leaves everything else alone; false when the gradient is not finite.
bool measure_layer(LayerReport& report, const AnyMatrix& G, Executor& executor);

}  // namespace spectralclip

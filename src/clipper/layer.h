// SPDX-License-Identifier: Apache-2.0
// One matrix of one parameter: what it is, how it is clipped and what it remembers. Its counters live in its report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clipper/part.h"
#include "spectralclip/clipper.h"
#include "spectralclip/factors.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

struct Layer {
  std::size_t parameter = 0;  // position in the caller's list …
  std::int64_t index = 0;     // … and which of the parameter's matrices this is
  int batch_axes = 0;         // how the rule reads the parameter's axes (rules.h)
  int row_axes = 1;
  std::uint64_t matrix_id = 0;
  Part part;         // what of it lies on this rank
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

// Whether its rows or columns are split over ranks; then it is clipped in rounds (rounds.h).
[[nodiscard]] inline bool is_split(const Layer& layer) noexcept {
  return layer.part.split == Split::rows || layer.part.split == Split::columns;
}
// Whether some of it, or all, lies on this rank: else a gradient of its parameter says nothing about it.
[[nodiscard]] inline bool is_here(const Layer& layer) noexcept {
  return layer.part.split != Split::matrices ||
         (layer.index >= layer.part.first && layer.index < layer.part.first + layer.part.extent);
}

// The layer's window of a usable gradient: what this rank holds of it.
[[nodiscard]] AnyMatrix matrix_of(const Gradient& gradient, const Layer& layer, const LayerReport& report) noexcept;

// What a finished clip means for the layer: observe, count. A gradient that is not finite changes the report only.
void record_clip(Layer& layer, LayerReport& report, const ClipReport& clip);

// tau, clip, observe, count; what it does to G is written down, if factors are given.
void clip_layer(Layer& layer, LayerReport& report, const AnyMatrix& G, Workspace& workspace, Executor& executor,
                ClipFactors* factors = nullptr);

// Reads the norm and leaves everything else alone; false when the gradient is not finite.
bool measure_layer(LayerReport& report, const AnyMatrix& G, Executor& executor);
// The same of a norm that is known.
bool record_norm(LayerReport& report, double norm);

}  // namespace spectralclip

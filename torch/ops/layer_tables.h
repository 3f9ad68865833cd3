// SPDX-License-Identifier: Apache-2.0
// The layers of a clipper as tensors on the host: what an engine in Python needs to know of them, and the states that
// it takes over and gives back, so that one checkpoint serves every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "clipper/layer.h"

namespace spectralclip::torch {

// Per layer, int64: parameter, index, batch_axes, row_axes, rows, cols, treatment, matrix_id, seed, threshold kind,
// window, warmup_steps, first_step, interpolation, observe_zeros, method, rank (0: free), max_passes, max_columns,
// exhausted, observe_only, measure_time.
// And float64: tau, decay, quantile, slack, floor, cap, tolerance, margin.
using LayerPlan = std::tuple<at::Tensor, at::Tensor>;
[[nodiscard]] LayerPlan plan_of(const LayerSet& set);

// Per layer: steps, steps_clipped, observed (int64, layers x 3); average (float64); the window, values in use in the
// order of the ring (float64); vectors (float32, kept x cols).
using LayerStates = std::tuple<at::Tensor, at::Tensor, std::vector<at::Tensor>, std::vector<at::Tensor>>;
[[nodiscard]] LayerStates states_of(const LayerSet& set);
// Throws InvalidArgument when the sizes are not those of the layers; then the set is as it was.
void set_states(LayerSet& set, const at::Tensor& counts, const at::Tensor& averages,
                const std::vector<at::Tensor>& windows, const std::vector<at::Tensor>& vectors);

}  // namespace spectralclip::torch

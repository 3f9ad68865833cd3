// SPDX-License-Identifier: Apache-2.0
// Collected data -> figures of the model. Each function appends those figures that have data, and no others.
#pragma once

#include <string>
#include <vector>

#include "report/groups.h"
#include "report/run_data.h"

namespace spectralclip::lab::report {

// The parts of the model that grow: figures refer to curves in `series` by place, since the same curve is drawn over
// steps and over seconds.
struct ModelParts {
  Json series = Json::array();
  Json figures = Json::array();
};

// Training and validation loss over steps and over seconds, and whatever else metrics.jsonl has.
void add_training_figures(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups);

// Cumulative average bias, one curve a method, for each group of task trace-regression.
void add_trace_figures(ModelParts& parts, const std::vector<const Group*>& groups);

// Measured errors against K and their bounds, one figure a theorem, for task rates.
void add_rate_figures(ModelParts& parts, const std::vector<const Group*>& groups);

// Thresholds and sigma_max, how often each layer clipped, spectra before and after.
void add_layer_figures(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups);

// Value over trials and against each parameter.
void add_sweep_figures(ModelParts& parts, const std::vector<Sweep>& sweeps);

// Heat maps of grids and the differences of grids of equal shape.
void add_grid_figures(ModelParts& parts, const std::vector<Sweep>& sweeps);

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
#include "studies/tasks.h"

#include "studies/rates.h"
#include "studies/trace_regression.h"

namespace spectralclip::lab {

std::vector<TaskInfo> study_tasks() {
  return {{.name = "trace-regression",
           .help = "bias of the clipped gradient under EMA, quantile and constant thresholds",
           .metrics = {{.name = "EMA", .label = "average bias of the EMA threshold"}},
           .groups = {"train", "record", "trace"},
           .make = &make_trace_regression},
          {.name = "rates",
           .help = "measured rates of clipped SGD beside the bounds of Theorems 1 and 2",
           .metrics = {{.name = "spectral_exponent", .label = "exponent of the decay, spectral clipping"}},
           .groups = {"train", "record", "rates"},
           .make = &make_rates}};
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// ClipReports of a batch while they are on the device: one tensor per field, turned into rows at the end.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "spectralclip/report.h"

namespace spectralclip::torch::aten {

struct BatchReport {
  Method method = Method::tracked;
  int passes = 0;
  std::int64_t columns = 0;
  at::Tensor finite;       // L, bool: the norm is; what is not was left alone
  at::Tensor exhausted;    // L, bool; undefined: none is
  at::Tensor unconverged;  // L, bool; undefined: none is
  at::Tensor certain;      // L, bool; undefined: all are
  // L, float64:
  at::Tensor tau;
  at::Tensor sigma_max;
  at::Tensor clipped;
  at::Tensor norm_before;
  at::Tensor norm_after;
  at::Tensor removed_energy;
  at::Tensor sigma_bound;
  at::Tensor error_estimate;
};

// L x kReportFields. What is not finite: sizes are the norm, NaN or infinity (out_of_range), nothing was clipped.
[[nodiscard]] at::Tensor to_rows(const BatchReport& report);

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "model/report_rows.h"

#include <ATen/ATen.h>

#include <limits>

#include "spectralclip/torch/report_fields.h"

namespace spectralclip::torch {

at::Tensor report_rows(std::span<const LayerReport> layers) {
  at::Tensor rows = at::full({static_cast<std::int64_t>(layers.size()), kReportFields},
                             std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  auto* row = rows.data_ptr<double>();
  for (const LayerReport& layer : layers) {
    if (layer.has_gradient) write_row(layer.clip, std::span<double, kReportFields>(row, kReportFields));
    row += kReportFields;
  }
  return rows;
}

}  // namespace spectralclip::torch

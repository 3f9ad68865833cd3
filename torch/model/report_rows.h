// SPDX-License-Identifier: Apache-2.0
// Reports of the core as the rows of a tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "spectralclip/clipper.h"

namespace spectralclip::torch {

// layers x kReportFields in float64 on the CPU; rows of layers without a gradient are NaN.
[[nodiscard]] at::Tensor report_rows(std::span<const LayerReport> layers);

}  // namespace spectralclip::torch

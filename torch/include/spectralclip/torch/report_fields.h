// SPDX-License-Identifier: Apache-2.0
// A ClipReport as a row of numbers, so that reports of many layers are one float64 tensor that may stay on its device
// until somebody looks. Enumerations are stored by value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "spectralclip/report.h"

namespace spectralclip::torch {

enum class ReportField : std::uint8_t {
  status = 0,
  method,
  tau,
  sigma_max,
  clipped,
  norm_before,
  norm_after,
  removed_energy,
  sigma_bound,
  bound_kind,
  error_estimate,
  passes,
  columns
};
inline constexpr std::int64_t kReportFields = 13;

// Their names, in order: the keys of a layer's report in Python.
inline constexpr std::array<const char*, kReportFields> kReportFieldNames = {
    "status",         "method",      "tau",        "sigma_max",      "clipped", "norm_before", "norm_after",
    "removed_energy", "sigma_bound", "bound_kind", "error_estimate", "passes",  "columns"};

void write_row(const ClipReport& report, std::span<double, kReportFields> row);
[[nodiscard]] ClipReport read_row(std::span<const double, kReportFields> row);

}  // namespace spectralclip::torch

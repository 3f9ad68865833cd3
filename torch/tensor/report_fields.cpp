// SPDX-License-Identifier: Apache-2.0
// Rows and reports, both ways. Seconds per stage are not part of a row: a device's time is not the host's.
#include "spectralclip/torch/report_fields.h"

#include <cmath>

namespace spectralclip::torch {
namespace {

constexpr std::size_t at(ReportField field) noexcept { return static_cast<std::size_t>(field); }

template <class Enum>
double number(Enum value) noexcept {
  return static_cast<double>(static_cast<std::uint8_t>(value));
}
// A layer without a gradient has a row of NaN; what is whole in a report is zero then.
std::int64_t whole(double value) noexcept { return std::isnan(value) ? 0 : static_cast<std::int64_t>(value); }

template <class Enum>
Enum enumeration(double value) noexcept {
  return static_cast<Enum>(whole(value));
}

}  // namespace

void write_row(const ClipReport& report, std::span<double, kReportFields> row) {
  row[at(ReportField::status)] = number(report.status);
  row[at(ReportField::method)] = number(report.method);
  row[at(ReportField::tau)] = report.tau;
  row[at(ReportField::sigma_max)] = report.sigma_max;
  row[at(ReportField::clipped)] = static_cast<double>(report.clipped);
  row[at(ReportField::norm_before)] = report.norm_before;
  row[at(ReportField::norm_after)] = report.norm_after;
  row[at(ReportField::removed_energy)] = report.removed_energy;
  row[at(ReportField::sigma_bound)] = report.sigma_bound;
  row[at(ReportField::bound_kind)] = number(report.bound_kind);
  row[at(ReportField::error_estimate)] = report.error_estimate;
  row[at(ReportField::passes)] = static_cast<double>(report.passes);
  row[at(ReportField::columns)] = static_cast<double>(report.columns);
}

ClipReport read_row(std::span<const double, kReportFields> row) {
  ClipReport report;
  report.status = enumeration<ClipStatus>(row[at(ReportField::status)]);
  report.method = enumeration<Method>(row[at(ReportField::method)]);
  report.tau = row[at(ReportField::tau)];
  report.sigma_max = row[at(ReportField::sigma_max)];
  report.clipped = whole(row[at(ReportField::clipped)]);
  report.norm_before = row[at(ReportField::norm_before)];
  report.norm_after = row[at(ReportField::norm_after)];
  report.removed_energy = row[at(ReportField::removed_energy)];
  report.sigma_bound = row[at(ReportField::sigma_bound)];
  report.bound_kind = enumeration<BoundKind>(row[at(ReportField::bound_kind)]);
  report.error_estimate = row[at(ReportField::error_estimate)];
  report.passes = static_cast<int>(whole(row[at(ReportField::passes)]));
  report.columns = whole(row[at(ReportField::columns)]);
  return report;
}

}  // namespace spectralclip::torch

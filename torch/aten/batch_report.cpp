// SPDX-License-Identifier: Apache-2.0
#include "aten/batch_report.h"

#include <array>

#include "spectralclip/torch/report_fields.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

template <class Enum>
double number(Enum value) {
  return static_cast<double>(static_cast<std::uint8_t>(value));
}

Tensor status_of(const BatchReport& report) {
  Tensor status = at::full_like(report.tau, number(ClipStatus::ok));
  if (report.unconverged.defined()) status.masked_fill_(report.unconverged, number(ClipStatus::not_converged));
  if (report.exhausted.defined()) status.masked_fill_(report.exhausted, number(ClipStatus::rank_exhausted));
  status.masked_fill_(report.finite.logical_not(), number(ClipStatus::not_finite));
  const Tensor beyond = report.out_of_range.defined() ? report.out_of_range : report.norm_before.isinf();
  return status.masked_fill_(beyond, number(ClipStatus::out_of_range));
}

Tensor bound_kind_of(const BatchReport& report) {
  Tensor kind = at::full_like(report.tau, number(BoundKind::certain));
  if (report.certain.defined()) kind.masked_fill_(report.certain.logical_not(), number(BoundKind::estimated));
  return kind;
}

}  // namespace

// Fields that hold sizes are the norm where nothing was looked at, changes are zero.
Tensor to_rows(const BatchReport& report) {
  const auto constant = [&](double value) { return at::full_like(report.tau, value); };
  const Tensor zero = constant(0);
  const std::array<Tensor, kReportFields> fields = {zero,
                                                    constant(number(report.method)),
                                                    report.tau,
                                                    report.sigma_max,
                                                    report.clipped,
                                                    report.norm_before,
                                                    report.norm_after,
                                                    report.removed_energy,
                                                    report.sigma_bound,
                                                    bound_kind_of(report),
                                                    report.error_estimate,
                                                    constant(report.passes),
                                                    constant(static_cast<double>(report.columns))};
  std::array<Tensor, kReportFields> unlooked = fields;
  for (const auto field : {ReportField::sigma_max, ReportField::norm_after, ReportField::sigma_bound}) {
    unlooked[static_cast<std::size_t>(field)] = report.norm_before;
  }
  for (const auto field : {ReportField::clipped, ReportField::removed_energy, ReportField::error_estimate}) {
    unlooked[static_cast<std::size_t>(field)] = zero;
  }
  const Tensor rows = at::where(report.finite.unsqueeze(1), at::stack(fields, 1), at::stack(unlooked, 1));
  rows.select(1, static_cast<std::int64_t>(ReportField::status)).copy_(status_of(report));
  return rows;
}

}  // namespace spectralclip::torch::aten

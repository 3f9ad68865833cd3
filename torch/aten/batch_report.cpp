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
  return status.masked_fill_(report.norm_before.isinf(), number(ClipStatus::out_of_range));
}

Tensor bound_kind_of(const BatchReport& report) {
  Tensor kind = at::full_like(report.tau, number(BoundKind::certain));
  if (report.certain.defined()) kind.masked_fill_(report.certain.logical_not(), number(BoundKind::estimated));
  return kind;
}

}  // namespace

Tensor to_rows(const BatchReport& report) {
  const auto constant = [&](double value) { return at::full_like(report.tau, value); };
  const auto size = [&](const Tensor& x) { return at::where(report.finite, x, report.norm_before); };
  const auto change = [&](const Tensor& x) { return at::where(report.finite, x, 0.0); };
  const std::array<Tensor, kReportFields> fields = {status_of(report),
                                                    constant(number(report.method)),
                                                    report.tau,
                                                    size(report.sigma_max),
                                                    change(report.clipped),
                                                    size(report.norm_before),
                                                    size(report.norm_after),
                                                    change(report.removed_energy),
                                                    size(report.sigma_bound),
                                                    bound_kind_of(report),
                                                    change(report.error_estimate),
                                                    constant(report.passes),
                                                    constant(static_cast<double>(report.columns))};
  return at::stack(fields, 1);
}

}  // namespace spectralclip::torch::aten

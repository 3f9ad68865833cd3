// SPDX-License-Identifier: Apache-2.0
// What a step did, in the words of the other languages. total_norm stays on its device and is not waited for;
// everything else is fetched from the clipper when first asked for, and kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spectralclip/clipper.h"

namespace spectralclip::torch {

// Ask before the clipper goes on: after its next step, a load or its end, what was not fetched throws Error instead of
// speaking of another step.
class SPECTRALCLIP_EXPORT StepReport {
 public:
  class Source;  // the clipper, as far as reports need it (model/report_source.h)
  StepReport(at::Tensor norm, std::int64_t number, std::weak_ptr<Source> source);

  at::Tensor total_norm;  // before clipping: 0-d, on the first gradient's device; not finite when a gradient is not
  std::int64_t step = 0;  // 1 for the first

  // What clip_grad_norm_ returns.
  operator at::Tensor() const { return total_norm; }  // NOLINT(google-explicit-constructor)

  [[nodiscard]] const std::vector<LayerReport>& layers() const;
  // Names of the layers that were clipped, and of those to which something happened (ClipStatus).
  [[nodiscard]] std::vector<std::string> clipped() const;
  [[nodiscard]] std::vector<std::string> not_finite() const { return with_status(ClipStatus::not_finite); }
  [[nodiscard]] std::vector<std::string> rank_exhausted() const { return with_status(ClipStatus::rank_exhausted); }
  [[nodiscard]] std::vector<std::string> not_converged() const { return with_status(ClipStatus::not_converged); }
  [[nodiscard]] std::vector<std::string> out_of_range() const { return with_status(ClipStatus::out_of_range); }
  [[nodiscard]] std::vector<std::string> out_of_memory() const { return with_status(ClipStatus::out_of_memory); }
  [[nodiscard]] double norm_after() const;

 private:
  [[nodiscard]] std::vector<std::string> with_status(ClipStatus status) const;

  std::weak_ptr<Source> source_;
  std::int64_t moment_ = 0;
  mutable std::vector<LayerReport> layers_;
  mutable bool fetched_ = false;
};

}  // namespace spectralclip::torch

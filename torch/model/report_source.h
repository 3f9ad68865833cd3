// SPDX-License-Identifier: Apache-2.0
// Where a StepReport fetches its layers from.
#pragma once

#include <cstdint>
#include <span>

#include "spectralclip/torch/step_report.h"

namespace spectralclip::torch {

class StepReport::Source {
 public:
  virtual ~Source() = default;
  // Changes with whatever changes the reports: the layers belong to one moment.
  [[nodiscard]] virtual std::int64_t moment() const noexcept = 0;
  // Waits for the device where the gradients live on one.
  [[nodiscard]] virtual std::span<const LayerReport> fetched_layers() = 0;
};

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// The layers that are clipped by ATen operators, in batches. A batch lasts while the same layers come with gradients of
// the same kind; when that changes, states go back to the core's form and new batches are made (the only time a step
// waits for the device).
#pragma once

#include <memory>
#include <vector>

#include "model/device_batch.h"

namespace spectralclip::torch {

class DeviceEngine {
 public:
  explicit DeviceEngine(LayerSet& layers) : set_(layers) {}

  // Before anything of a step: unless these matrices are those of the latest one, states go back to the core's form and
  // the batches are forgotten, so that nobody works on a state, or shows a report, that is not of this step.
  void settle(const std::vector<DeviceMatrix>& matrices);
  // Clips in place, after settle(). leave_all: nothing is written or observed unless every matrix is finite (decided on
  // the device). Returns sums of squares before clipping, 0-d float64, one per batch on its device.
  std::vector<at::Tensor> step(const std::vector<DeviceMatrix>& matrices, bool leave_all);

  // layers x kReportFields on the device of the first batch, NaN rows for layers that were not clipped here.
  [[nodiscard]] at::Tensor report_values() const;
  // The same into the layers' reports; waits for the device.
  void pull_reports();
  // States to the core's form, for a checkpoint or for new batches; waits for the device.
  void pull_states();
  // Forgets the batches: the next step makes new ones from the core's states.
  void forget() noexcept {
    batches_.clear();
    pattern_.clear();
  }
  [[nodiscard]] bool empty() const noexcept { return batches_.empty(); }

 private:
  using Group = std::vector<std::size_t>;  // positions in the list of matrices

  [[nodiscard]] bool fits(const std::vector<DeviceMatrix>& matrices) const;
  [[nodiscard]] bool batch_together(const DeviceMatrix& a, const DeviceMatrix& b) const;
  [[nodiscard]] std::vector<Group> groups_of(const std::vector<DeviceMatrix>& matrices) const;
  void form_batches(const std::vector<DeviceMatrix>& matrices);
  [[nodiscard]] at::Tensor all_finite(const std::vector<DeviceMatrix>& matrices) const;

  LayerSet& set_;
  std::vector<DeviceBatch> batches_;
  std::vector<DeviceMatrix> pattern_;  // layers of the latest step, with an empty tensor of the kind of each gradient
};

}  // namespace spectralclip::torch

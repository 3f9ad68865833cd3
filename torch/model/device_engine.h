// SPDX-License-Identifier: Apache-2.0
// The layers that are clipped by ATen operators: batches of equal shape, type, device and settings, whose thresholds
// and subspaces live on the device. A batch lasts while the same layers come with gradients of the same kind; when that
// changes, states go back to the core's form and new batches are made (the only time a step waits for the device).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "aten/clip.h"
#include "aten/thresholds.h"
#include "clipper/layer.h"

namespace spectralclip::torch {

// One layer's matrix (or, for norm and skip, its tensor as it is) in this step.
struct DeviceMatrix {
  std::size_t layer = 0;  // in the LayerSet
  at::Tensor matrix;      // rows x cols
};

class DeviceEngine {
 public:
  explicit DeviceEngine(LayerSet& layers) : set_(layers) {}

  // Clips in place. leave_all: nothing is written or observed unless every matrix is finite (decided on the device).
  // Returns the sum of squares of all matrices before clipping, 0-d float64 per device in order of first appearance.
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
  struct Batch;
  using Batches = std::vector<std::shared_ptr<Batch>>;

  [[nodiscard]] bool fits(const std::vector<DeviceMatrix>& matrices) const;
  void form_batches(const std::vector<DeviceMatrix>& matrices);

  LayerSet& set_;
  Batches batches_;
  std::vector<DeviceMatrix> pattern_;  // the matrices of the latest step, undefined tensors replaced by their kind
};

}  // namespace spectralclip::torch

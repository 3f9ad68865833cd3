// SPDX-License-Identifier: Apache-2.0
// Layers of equal shape, type, device and settings that are clipped together by ATen operators. Thresholds, subspaces
// and counters live on the device; they come from the core's form when a batch is made and go back when asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
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

// Equal type and device.
[[nodiscard]] bool same_kind(const at::Tensor& a, const at::Tensor& b);

class DeviceBatch {
 public:
  // `members`: positions in `matrices`, in this step and in all that follow.
  DeviceBatch(const LayerSet& set, const std::vector<DeviceMatrix>& matrices, std::vector<std::size_t> members);

  [[nodiscard]] at::Device device() const { return steps_.device(); }
  // 0-d bool on the device: whether every matrix is finite. One more read of them.
  [[nodiscard]] at::Tensor all_finite(const std::vector<DeviceMatrix>& matrices) const;
  // In place. allowed: 0-d bool; where false nothing is written, observed or counted. Undefined: always.
  void clip(const std::vector<DeviceMatrix>& matrices, const at::Tensor& allowed);

  // Of the latest step: L x kReportFields, and where the rows belong among all layers (L, int64).
  [[nodiscard]] const at::Tensor& values() const { return values_; }
  [[nodiscard]] const at::Tensor& places() const { return places_; }
  [[nodiscard]] at::Tensor sum_of_squares() const;  // 0-d: of the norms before clipping

  // To the core's form; both wait for the device.
  void store_reports(LayerSet& set) const;
  void store_states(LayerSet& set) const;

 private:
  [[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<DeviceMatrix>& matrices) const;
  void load_states(const LayerSet& set, at::ScalarType storage);
  void load_subspace(const LayerSet& set, at::ScalarType storage);
  [[nodiscard]] at::Tensor tau_where(const at::Tensor& allowed) const;
  void clip_spectral(const std::vector<at::Tensor>& G, const at::Tensor& tau, const at::Tensor& allowed);
  void observe_and_count(const at::Tensor& allowed);
  void store_counts(LayerSet& set) const;

  std::vector<std::size_t> members_;  // positions in the list of matrices …
  std::vector<std::size_t> layers_;   // … and their layers
  Treatment treatment_;
  ClipOptions clip_;
  aten::BatchThresholds thresholds_;
  aten::BatchSubspace subspace_;
  aten::BatchStream stream_;
  at::Tensor places_;         // L, int64: layers_
  at::Tensor steps_;          // L, int64
  at::Tensor steps_clipped_;  // L, int64
  at::Tensor values_;         // L x kReportFields of the latest step
};

}  // namespace spectralclip::torch

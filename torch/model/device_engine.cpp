// SPDX-License-Identifier: Apache-2.0
#include "model/device_engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "spectralclip/torch/report_fields.h"

namespace spectralclip::torch {

bool DeviceEngine::fits(const std::vector<DeviceMatrix>& matrices) const {
  return std::equal(
      matrices.begin(), matrices.end(), pattern_.begin(), pattern_.end(),
      [](const DeviceMatrix& a, const DeviceMatrix& b) { return a.layer == b.layer && same_kind(a.matrix, b.matrix); });
}

bool DeviceEngine::batch_together(const DeviceMatrix& a, const DeviceMatrix& b) const {
  const LayerReport& ra = set_.reports[a.layer];
  const LayerReport& rb = set_.reports[b.layer];
  const bool same_shape = ra.treatment != Treatment::spectral || (ra.rows == rb.rows && ra.cols == rb.cols);
  return ra.treatment == rb.treatment && same_shape && set_.layers[a.layer].clip == set_.layers[b.layer].clip &&
         set_.layers[a.layer].threshold == set_.layers[b.layer].threshold && same_kind(a.matrix, b.matrix);
}

std::vector<DeviceEngine::Group> DeviceEngine::groups_of(const std::vector<DeviceMatrix>& matrices) const {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return batch_together(matrices[group.front()], matrices[i]);
    });
    if (found != groups.end()) {
      found->push_back(i);
    } else {
      groups.push_back({i});
    }
  }
  return groups;
}

void DeviceEngine::form_batches(const std::vector<DeviceMatrix>& matrices) {
  for (Group& group : groups_of(matrices)) batches_.emplace_back(set_, matrices, std::move(group));
  for (const DeviceMatrix& m : matrices) pattern_.push_back({m.layer, at::empty({0}, m.matrix.options())});
}

void DeviceEngine::settle(const std::vector<DeviceMatrix>& matrices) {
  if (fits(matrices)) return;
  pull_states();
  forget();
}

at::Tensor DeviceEngine::all_finite(const std::vector<DeviceMatrix>& matrices) const {
  at::Tensor all;
  for (const DeviceBatch& batch : batches_) {
    const at::Tensor finite = batch.all_finite(matrices);
    all = all.defined() ? all.logical_and(finite.to(all.device())) : finite;
  }
  return all;
}

std::vector<at::Tensor> DeviceEngine::step(const std::vector<DeviceMatrix>& matrices, bool leave_all) {
  if (batches_.empty()) form_batches(matrices);
  at::Tensor allowed;
  if (leave_all) allowed = all_finite(matrices);
  std::vector<at::Tensor> squares;
  for (DeviceBatch& batch : batches_) {
    batch.clip(matrices, allowed.defined() ? allowed.to(batch.device()) : allowed);
    squares.push_back(batch.sum_of_squares());
  }
  return squares;
}

at::Tensor DeviceEngine::report_values() const {
  const at::Device device = batches_.front().device();
  at::Tensor all =
      at::full({static_cast<std::int64_t>(set_.layers.size()), kReportFields}, std::numeric_limits<double>::quiet_NaN(),
               at::TensorOptions().dtype(at::kDouble).device(device));
  for (const DeviceBatch& batch : batches_) {
    all.index_copy_(0, batch.places().to(device), batch.values().to(device));
  }
  return all;
}

void DeviceEngine::pull_reports() {
  for (const DeviceBatch& batch : batches_) batch.store_reports(set_);
}

void DeviceEngine::pull_states() {
  for (const DeviceBatch& batch : batches_) batch.store_states(set_);
}

}  // namespace spectralclip::torch

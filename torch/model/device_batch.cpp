// SPDX-License-Identifier: Apache-2.0
#include "model/device_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "aten/matrix_batch.h"
#include "aten/storage.h"
#include "constants.h"
#include "spectralclip/torch/report_fields.h"
#include "subspace/search.h"

namespace spectralclip::torch {
namespace {

at::Tensor column(const at::Tensor& values, ReportField field) {
  return values.select(1, static_cast<std::int64_t>(field));
}

}  // namespace

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

DeviceBatch::DeviceBatch(const LayerSet& set, const std::vector<DeviceMatrix>& matrices,
                         std::vector<std::size_t> members)
    : members_(std::move(members)),
      treatment_(set.reports[matrices[members_.front()].layer].treatment),
      clip_(set.layers[matrices[members_.front()].layer].clip),
      thresholds_(set.layers[matrices[members_.front()].layer].threshold, static_cast<std::int64_t>(members_.size()),
                  matrices[members_.front()].matrix.device()) {
  const at::Tensor& first = matrices[members_.front()].matrix;
  stream_.seed = clip_.seed;
  std::vector<std::int64_t> places;
  for (const std::size_t member : members_) {
    const std::size_t layer = matrices[member].layer;
    layers_.push_back(layer);
    places.push_back(static_cast<std::int64_t>(layer));
    stream_.matrix_ids.push_back(static_cast<std::int64_t>(set.layers[layer].matrix_id));
  }
  places_ = aten::whole_numbers(places, first.device());
  load_states(set, first.scalar_type());
}

void DeviceBatch::load_states(const LayerSet& set, at::ScalarType storage) {
  std::vector<ThresholdState> states;
  std::vector<std::int64_t> steps, clipped;
  for (const std::size_t layer : layers_) {
    states.push_back(set.layers[layer].threshold_state);
    steps.push_back(set.reports[layer].steps);
    clipped.push_back(set.reports[layer].steps_clipped);
  }
  steps_ = aten::whole_numbers(steps, places_.device());
  steps_clipped_ = aten::whole_numbers(clipped, places_.device());
  subspace_.steps = steps_;
  const bool observed = std::any_of(states.begin(), states.end(), [](const auto& state) { return state.observed > 0; });
  if (observed) thresholds_.from_states(states);  // a copy from the host; a first step on fake tensors makes none
  if (treatment_ == Treatment::spectral) load_subspace(set, storage);
}

// As many vectors as every layer has.
void DeviceBatch::load_subspace(const LayerSet& set, at::ScalarType storage) {
  std::int64_t kept = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t layer : layers_) kept = std::min(kept, set.layers[layer].subspace.kept);
  if (kept == 0) return;
  std::vector<at::Tensor> vectors;
  for (const std::size_t layer : layers_) {
    const SubspaceState& saved = set.layers[layer].subspace;
    vectors.push_back(at::tensor(saved.V).view({saved.kept, saved.cols}).slice(0, 0, kept).t());
  }
  subspace_.V = at::stack(vectors).to(work_type(storage)).to(device());
}

std::vector<at::Tensor> DeviceBatch::tensors_of(const std::vector<DeviceMatrix>& matrices) const {
  std::vector<at::Tensor> tensors;
  for (const std::size_t member : members_) tensors.push_back(matrices[member].matrix);
  return tensors;
}

at::Tensor DeviceBatch::all_finite(const std::vector<DeviceMatrix>& matrices) const {
  return aten::frobenius_norms(tensors_of(matrices)).isfinite().all();
}

at::Tensor DeviceBatch::tau_where(const at::Tensor& allowed) const {
  const at::Tensor tau = thresholds_.tau();
  if (treatment_ == Treatment::skip) return at::full_like(tau, kInfinity);
  return allowed.defined() ? at::where(allowed, tau, kInfinity) : tau;
}

void DeviceBatch::clip(const std::vector<DeviceMatrix>& matrices, const at::Tensor& allowed) {
  const std::vector<at::Tensor> G = tensors_of(matrices);
  const at::Tensor tau = tau_where(allowed);
  if (treatment_ == Treatment::spectral) {
    clip_spectral(G, tau, allowed);
  } else {
    values_ = aten::clip_norms(G, tau, !clip_.observe_only && treatment_ == Treatment::norm);
  }
  observe_and_count(allowed);
}

// Vectors that are known stay in a step that is left. The first ones may come from any finite gradient: they only say
// where the next search starts.
void DeviceBatch::clip_spectral(const std::vector<at::Tensor>& G, const at::Tensor& tau, const at::Tensor& allowed) {
  const at::Tensor before = subspace_.V;
  values_ = aten::clip_batch(G, tau, clip_, stream_, subspace_, thresholds_.may_be_zero());
  at::Tensor& V = subspace_.V;
  if (!V.defined()) return;
  if (allowed.defined() && before.defined() && before.sizes() == V.sizes()) V = at::where(allowed, V, before);
  // A checkpoint holds float32; a run that goes on must not know more than one that is resumed.
  if (V.scalar_type() == at::kDouble) V = V.to(at::kFloat).to(at::kDouble);
}

// A step that is left counts for nobody, nor for the random columns: their address is what a checkpoint holds.
void DeviceBatch::observe_and_count(const at::Tensor& allowed) {
  at::Tensor seen = column(values_, ReportField::norm_before).isfinite();  // otherwise it was left alone
  if (allowed.defined()) seen = seen.logical_and(allowed);
  const ReportField observed = treatment_ == Treatment::spectral ? ReportField::sigma_max : ReportField::norm_before;
  if (treatment_ != Treatment::skip) thresholds_.observe(column(values_, observed), seen);
  steps_ = steps_ + seen;
  steps_clipped_ = steps_clipped_ + seen.logical_and(column(values_, ReportField::clipped).gt(0));
  subspace_.steps = steps_;
}

at::Tensor DeviceBatch::sum_of_squares() const { return column(values_, ReportField::norm_before).square().sum(); }

void DeviceBatch::store_counts(LayerSet& set) const {
  const at::Tensor steps = steps_.to(at::kCPU);
  const at::Tensor clipped = steps_clipped_.to(at::kCPU);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    set.reports[layers_[i]].steps = steps.const_data_ptr<std::int64_t>()[i];
    set.reports[layers_[i]].steps_clipped = clipped.const_data_ptr<std::int64_t>()[i];
  }
}

void DeviceBatch::store_reports(LayerSet& set) const {
  store_counts(set);
  const at::Tensor values = values_.to(at::kCPU).contiguous();
  const double* row = values.const_data_ptr<double>();
  for (const std::size_t layer : layers_) {
    set.reports[layer].has_gradient = true;
    set.reports[layer].clip = read_row(std::span<const double, kReportFields>(row, kReportFields));
    row += kReportFields;
  }
}

void DeviceBatch::store_states(LayerSet& set) const {
  store_counts(set);
  const std::vector<ThresholdState> states = thresholds_.to_states();
  for (std::size_t i = 0; i < layers_.size(); ++i) set.layers[layers_[i]].threshold_state = states[i];
  if (!subspace_.V.defined()) return;
  const at::Tensor V = subspace_.V.to(at::kCPU, at::kFloat).transpose(1, 2).contiguous();  // L x kept x n
  const float* first = V.const_data_ptr<float>();
  for (const std::size_t layer : layers_) {
    SubspaceState& saved = set.layers[layer].subspace;
    saved.kept = V.size(1);
    saved.cols = V.size(2);
    saved.columns = saved.kept + kFreshColumns;
    saved.V.assign(first, first + saved.kept * saved.cols);
    first += saved.kept * saved.cols;
  }
}

}  // namespace spectralclip::torch

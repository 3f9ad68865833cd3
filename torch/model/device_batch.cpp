// SPDX-License-Identifier: Apache-2.0
#include "model/device_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "aten/clip_subspace.h"
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

constexpr double status_number(ClipStatus status) { return static_cast<double>(static_cast<std::uint8_t>(status)); }

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
  load_states(set);
}

void DeviceBatch::load_states(const LayerSet& set) {
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
  if (treatment_ == Treatment::spectral) load_subspace(set);
}

// Padded to the widest layer, as in aten/matrix_batch.h. Undefined, a cold start, when nothing is known of any.
void DeviceBatch::load_subspace(const LayerSet& set) {
  std::int64_t width = 0;
  bool known = false;
  for (const std::size_t layer : layers_) {
    width = std::max<std::int64_t>(width, set.reports[layer].cols);
    known = known || set.layers[layer].subspace.kept > 0;
  }
  if (!known) return;
  const auto L = static_cast<std::int64_t>(layers_.size());
  const std::int64_t rows = aten::followed_rows(clip_);
  at::Tensor V = at::zeros({L, rows, width});
  for (std::int64_t i = 0; i < L; ++i) {
    const SubspaceState& saved = set.layers[layers_[static_cast<std::size_t>(i)]].subspace;
    const std::int64_t kept = std::min(saved.kept, rows);
    if (kept == 0) continue;
    const at::Tensor vectors = at::tensor(saved.V).view({saved.kept, saved.cols}).slice(0, 0, kept);
    V.select(0, i).slice(0, 0, kept).slice(1, 0, saved.cols).copy_(vectors);
  }
  subspace_.V = V.to(device());
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
  if (allowed.defined() && V.defined() && before.defined()) V = at::where(allowed, V, before);
}

// A step that is left counts for nobody, nor for the random columns: their address is what a checkpoint holds.
void DeviceBatch::observe_and_count(const at::Tensor& allowed) {
  const at::Tensor status = column(values_, ReportField::status);  // what was not left alone, as spectralclip::observed()
  at::Tensor seen = (status != status_number(ClipStatus::not_finite)).logical_and_(status != status_number(ClipStatus::out_of_range));
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
  const at::Tensor V = subspace_.V.to(at::kCPU);  // L x kept x n
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    SubspaceState& saved = set.layers[layers_[i]].subspace;
    saved.kept = V.size(1);
    saved.cols = set.reports[layers_[i]].cols;
    saved.columns = saved.kept + kFreshColumns;
    const at::Tensor own = V.select(0, static_cast<std::int64_t>(i)).slice(1, 0, saved.cols).contiguous();
    saved.V.assign(own.const_data_ptr<float>(), own.const_data_ptr<float>() + own.numel());
  }
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "model/device_engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "spectralclip/torch/report_fields.h"
#include "subspace/search.h"

namespace spectralclip::torch {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

at::Tensor column(const at::Tensor& values, ReportField field) {
  return values.select(1, static_cast<std::int64_t>(field));
}

// Without a copy from the host where all are zero: a first step then runs on fake tensors too.
at::Tensor counts_on(const at::Device& device, const std::vector<std::int64_t>& counts) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  if (std::all_of(counts.begin(), counts.end(), [](std::int64_t n) { return n == 0; })) {
    return at::zeros({static_cast<std::int64_t>(counts.size())}, options.device(device));
  }
  return at::tensor(counts, options).to(device);
}

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

}  // namespace

struct DeviceEngine::Batch {
  std::vector<std::size_t> members;    // positions in the list of matrices …
  std::vector<std::size_t> layers;     // … and their layers
  Treatment treatment = Treatment::spectral;
  ClipOptions clip;
  aten::BatchThresholds thresholds;
  aten::BatchSubspace subspace;
  aten::BatchStream stream;
  at::Tensor steps;          // L, int64
  at::Tensor steps_clipped;  // L, int64
  at::Tensor values;         // L x kReportFields of the latest step

  Batch(const Layer& layer, Treatment how, std::int64_t count, const at::Device& device)
      : treatment(how), clip(layer.clip), thresholds(layer.threshold, count, device) {}

  void clip_all(const std::vector<DeviceMatrix>& matrices, const at::Tensor& allowed);
};

// allowed: 0-d bool, or undefined for "always".
void DeviceEngine::Batch::clip_all(const std::vector<DeviceMatrix>& matrices, const at::Tensor& allowed) {
  std::vector<at::Tensor> G;
  for (const std::size_t member : members) G.push_back(matrices[member].matrix);
  at::Tensor tau = thresholds.tau();
  if (treatment == Treatment::skip) tau = at::full_like(tau, std::numeric_limits<double>::infinity());
  if (allowed.defined()) tau = at::where(allowed, tau, std::numeric_limits<double>::infinity());
  if (treatment == Treatment::spectral) {
    values = aten::clip_batch(G, tau, clip, stream, subspace);
    // A checkpoint holds float32; a run that goes on must not know more than one that is resumed.
    if (subspace.V.defined() && subspace.V.scalar_type() == at::kDouble) {
      subspace.V = subspace.V.to(at::kFloat).to(at::kDouble);
    }
  } else {
    values = aten::clip_norms(G, tau, !clip.observe_only && treatment == Treatment::norm);
  }
  at::Tensor seen = column(values, ReportField::status).ne(static_cast<double>(ClipStatus::not_finite));
  if (allowed.defined()) seen = seen.logical_and(allowed);
  const ReportField observed = treatment == Treatment::spectral ? ReportField::sigma_max : ReportField::norm_before;
  if (treatment != Treatment::skip) thresholds.observe(column(values, observed), seen);
  steps = steps + seen;
  steps_clipped = steps_clipped + seen.logical_and(column(values, ReportField::clipped).gt(0));
}

bool DeviceEngine::fits(const std::vector<DeviceMatrix>& matrices) const {
  return std::equal(matrices.begin(), matrices.end(), pattern_.begin(), pattern_.end(),
                    [](const DeviceMatrix& a, const DeviceMatrix& b) {
                      return a.layer == b.layer && same_kind(a.matrix, b.matrix);
                    });
}

void DeviceEngine::form_batches(const std::vector<DeviceMatrix>& matrices) {
  pull_states();
  batches_.clear();
  const auto joins = [&](const std::vector<std::size_t>& group, std::size_t i) {
    const std::size_t first = matrices[group.front()].layer, other = matrices[i].layer;
    const Layer& a = set_.layers[first];
    const Layer& b = set_.layers[other];
    const LayerReport& ra = set_.reports[first];
    const LayerReport& rb = set_.reports[other];
    const bool same_shape = ra.treatment != Treatment::spectral || (ra.rows == rb.rows && ra.cols == rb.cols);
    return ra.treatment == rb.treatment && same_shape && a.clip == b.clip && a.threshold == b.threshold &&
           same_kind(matrices[group.front()].matrix, matrices[i].matrix);
  };
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return joins(group, i); });
    if (found != groups.end()) {
      found->push_back(i);
    } else {
      groups.push_back({i});
    }
  }
  for (const std::vector<std::size_t>& group : groups) {
    const std::size_t first = matrices[group.front()].layer;
    const at::Device device = matrices[group.front()].matrix.device();
    auto batch = std::make_shared<Batch>(set_.layers[first], set_.reports[first].treatment,
                                         static_cast<std::int64_t>(group.size()), device);
    batch->members = group;
    batch->stream.seed = set_.layers[first].clip.seed;
    std::vector<ThresholdState> states;
    std::vector<std::int64_t> steps, clipped;
    std::int64_t kept = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t member : group) {
      const std::size_t layer = matrices[member].layer;
      batch->layers.push_back(layer);
      batch->stream.matrix_ids.push_back(static_cast<std::int64_t>(set_.layers[layer].matrix_id));
      states.push_back(set_.layers[layer].threshold_state);
      steps.push_back(set_.reports[layer].steps);
      clipped.push_back(set_.reports[layer].steps_clipped);
      kept = std::min(kept, set_.layers[layer].subspace.kept);
    }
    if (std::any_of(states.begin(), states.end(), [](const ThresholdState& state) { return state.observed > 0; })) {
      batch->thresholds.from_states(states);
    }
    batch->steps = counts_on(device, steps);
    batch->steps_clipped = counts_on(device, clipped);
    batch->subspace.steps = batch->steps;
    if (batch->treatment == Treatment::spectral && kept > 0) {
      std::vector<at::Tensor> vectors;
      for (const std::size_t layer : batch->layers) {
        const SubspaceState& saved = set_.layers[layer].subspace;
        const at::Tensor V = at::tensor(saved.V).view({saved.kept, saved.cols}).slice(0, 0, kept);
        vectors.push_back(V.t());
      }
      const bool wide = matrices[group.front()].matrix.scalar_type() == at::kDouble;
      batch->subspace.V = at::stack(vectors).to(wide ? at::kDouble : at::kFloat).to(device);
    }
    batches_.push_back(std::move(batch));
  }
  pattern_.clear();
  for (const DeviceMatrix& m : matrices) {
    pattern_.push_back({m.layer, at::empty({0}, m.matrix.options())});
  }
}

std::vector<at::Tensor> DeviceEngine::step(const std::vector<DeviceMatrix>& matrices, bool leave_all) {
  if (!fits(matrices)) form_batches(matrices);
  at::Tensor allowed;
  if (leave_all) {
    std::vector<at::Tensor> all;
    for (const DeviceMatrix& m : matrices) all.push_back(m.matrix);
    std::vector<at::Tensor> norms;
    for (const at::Tensor& norm : at::_foreach_norm(all)) norms.push_back(norm.to(all.front().device(), at::kDouble));
    allowed = at::stack(norms).isfinite().all();
  }
  std::vector<at::Tensor> squares;
  for (const auto& batch : batches_) {
    batch->clip_all(matrices, allowed);
    squares.push_back(column(batch->values, ReportField::norm_before).square().sum());
  }
  return squares;
}

at::Tensor DeviceEngine::report_values() const {
  const at::Device device = batches_.front()->values.device();
  at::Tensor all = at::full({static_cast<std::int64_t>(set_.layers.size()), kReportFields}, kNaN,
                            at::TensorOptions().dtype(at::kDouble).device(device));
  for (const auto& batch : batches_) {
    std::vector<std::int64_t> rows(batch->layers.begin(), batch->layers.end());
    const at::Tensor index = at::tensor(rows, at::TensorOptions().dtype(at::kLong)).to(device);
    all.index_copy_(0, index, batch->values.to(device));
  }
  return all;
}

void DeviceEngine::pull_reports() {
  for (const auto& batch : batches_) {
    const at::Tensor values = batch->values.to(at::kCPU).contiguous();
    const at::Tensor steps = batch->steps.to(at::kCPU);
    const at::Tensor clipped = batch->steps_clipped.to(at::kCPU);
    for (std::size_t i = 0; i < batch->layers.size(); ++i) {
      LayerReport& report = set_.reports[batch->layers[i]];
      report.has_gradient = true;
      report.clip = read_row(std::span<const double, kReportFields>(
          values.const_data_ptr<double>() + static_cast<std::int64_t>(i) * kReportFields, kReportFields));
      report.steps = steps.const_data_ptr<std::int64_t>()[i];
      report.steps_clipped = clipped.const_data_ptr<std::int64_t>()[i];
    }
  }
}

void DeviceEngine::pull_states() {
  for (const auto& batch : batches_) {
    const std::vector<ThresholdState> states = batch->thresholds.to_states();
    const at::Tensor steps = batch->steps.to(at::kCPU);
    const at::Tensor clipped = batch->steps_clipped.to(at::kCPU);
    at::Tensor V;  // L x kept x n
    if (batch->subspace.V.defined()) V = batch->subspace.V.to(at::kCPU, at::kFloat).transpose(1, 2).contiguous();
    for (std::size_t i = 0; i < batch->layers.size(); ++i) {
      Layer& layer = set_.layers[batch->layers[i]];
      layer.threshold_state = states[i];
      set_.reports[batch->layers[i]].steps = steps.const_data_ptr<std::int64_t>()[i];
      set_.reports[batch->layers[i]].steps_clipped = clipped.const_data_ptr<std::int64_t>()[i];
      if (!V.defined()) continue;
      SubspaceState& saved = layer.subspace;
      saved.kept = V.size(1);
      saved.cols = V.size(2);
      saved.columns = saved.kept + kFreshColumns;
      const float* first = V.const_data_ptr<float>() + static_cast<std::int64_t>(i) * saved.kept * saved.cols;
      saved.V.assign(first, first + saved.kept * saved.cols);
    }
  }
}

}  // namespace spectralclip::torch

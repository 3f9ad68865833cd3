// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_tables.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "require.h"

namespace spectralclip::torch {
namespace {

template <class T>
at::Tensor table(const std::vector<std::vector<T>>& rows, at::ScalarType type) {
  const auto width = static_cast<std::int64_t>(rows.empty() ? 0 : rows.front().size());
  at::Tensor all = at::empty({static_cast<std::int64_t>(rows.size()), width}, type);
  T* out = all.data_ptr<T>();
  for (const std::vector<T>& row : rows) out = std::copy(row.begin(), row.end(), out);
  return all;
}

template <class T, class Value>
at::Tensor line(const Value* values, std::size_t count, at::ScalarType type) {
  at::Tensor all = at::empty({static_cast<std::int64_t>(count)}, type);
  std::copy_n(values, count, all.data_ptr<T>());
  return all;
}

std::size_t window_values(const ThresholdState& state) {
  return std::min(static_cast<std::size_t>(state.observed), state.window.size());
}

ThresholdState threshold_from(const ThresholdOptions& options, std::int64_t observed, double average,
                              const at::Tensor& window) {
  ThresholdState state = make_threshold_state(options);
  state.observed = observed;
  state.average = average;
  const std::size_t count = window_values(state);
  SPECTRALCLIP_REQUIRE(window.numel() == static_cast<std::int64_t>(count), "a window of ", window.numel(),
                       " values where ", count, " were observed");
  const at::Tensor packed = window.to(at::kCPU, at::kDouble).contiguous();
  std::copy_n(packed.const_data_ptr<double>(), count, state.window.begin());
  if (options.kind == ThresholdKind::quantile) {
    std::copy_n(state.window.begin(), count, state.sorted.begin());
    std::sort(state.sorted.begin(), state.sorted.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return state;
}

SubspaceState subspace_from(const SubspaceState& before, const at::Tensor& vectors, std::int64_t cols) {
  SubspaceState state = before;
  if (vectors.numel() == 0) return state;
  SPECTRALCLIP_REQUIRE(vectors.dim() == 2 && vectors.size(1) == cols, "vectors of shape ", vectors.sizes(),
                       " for a matrix of ", cols, " columns");
  const at::Tensor packed = vectors.to(at::kCPU, at::kFloat).contiguous();
  state.cols = cols;
  state.columns = state.kept = packed.size(0);
  state.calm_steps = 0;
  state.V.assign(packed.const_data_ptr<float>(), packed.const_data_ptr<float>() + packed.numel());
  return state;
}

}  // namespace

LayerPlan plan_of(const LayerSet& set) {
  std::vector<std::vector<std::int64_t>> numbers;
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const Layer& layer = set.layers[i];
    const LayerReport& report = set.reports[i];
    const ThresholdOptions& t = layer.threshold;
    const ClipOptions& c = layer.clip;
    numbers.push_back({static_cast<std::int64_t>(layer.parameter),
                       layer.index,
                       layer.batch_axes,
                       layer.row_axes,
                       report.rows,
                       report.cols,
                       static_cast<std::int64_t>(report.treatment),
                       static_cast<std::int64_t>(layer.matrix_id),
                       static_cast<std::int64_t>(c.seed),
                       static_cast<std::int64_t>(t.kind),
                       t.window,
                       t.warmup_steps,
                       static_cast<std::int64_t>(t.first_step),
                       static_cast<std::int64_t>(t.interpolation),
                       t.observe_zeros,
                       static_cast<std::int64_t>(c.method),
                       c.rank.value_or(0),
                       c.max_passes,
                       c.max_columns,
                       static_cast<std::int64_t>(c.exhausted),
                       c.observe_only,
                       c.measure_time});
    values.push_back({t.tau, t.decay, t.quantile, t.slack, t.floor, t.cap, c.tolerance, c.margin});
  }
  return {table(numbers, at::kLong), table(values, at::kDouble)};
}

LayerStates states_of(const LayerSet& set) {
  std::vector<std::vector<std::int64_t>> counts;
  std::vector<double> averages;
  std::vector<at::Tensor> windows, vectors;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const ThresholdState& t = set.layers[i].threshold_state;
    const SubspaceState& s = set.layers[i].subspace;
    counts.push_back({set.reports[i].steps, set.reports[i].steps_clipped, t.observed});
    averages.push_back(t.average);
    windows.push_back(line<double>(t.window.data(), window_values(t), at::kDouble));
    const auto kept = static_cast<std::size_t>(s.kept * s.cols);
    vectors.push_back(line<float>(s.V.data(), kept, at::kFloat).view({s.kept, s.cols}));
  }
  return {table(counts, at::kLong), line<double>(averages.data(), averages.size(), at::kDouble), windows, vectors};
}

void set_states(LayerSet& set, const at::Tensor& counts, const at::Tensor& averages,
                const std::vector<at::Tensor>& windows, const std::vector<at::Tensor>& vectors) {
  const std::size_t layers = set.layers.size();
  const auto rows = static_cast<std::int64_t>(layers);
  SPECTRALCLIP_REQUIRE(counts.dim() == 2 && counts.size(0) == rows && counts.size(1) == 3 && averages.numel() == rows &&
                           windows.size() == layers && vectors.size() == layers,
                       "states of ", averages.numel(), " layers where there are ", layers);
  const at::Tensor numbers = counts.to(at::kCPU, at::kLong).contiguous();
  const at::Tensor means = averages.to(at::kCPU, at::kDouble).contiguous();
  const auto* number = numbers.const_data_ptr<std::int64_t>();
  std::vector<ThresholdState> thresholds;
  std::vector<SubspaceState> subspaces;
  for (std::size_t i = 0; i < layers; ++i) {
    thresholds.push_back(
        threshold_from(set.layers[i].threshold, number[3 * i + 2], means.const_data_ptr<double>()[i], windows[i]));
    subspaces.push_back(subspace_from(set.layers[i].subspace, vectors[i], set.reports[i].cols));
  }
  for (std::size_t i = 0; i < layers; ++i) {
    set.layers[i].threshold_state = std::move(thresholds[i]);
    set.layers[i].subspace = std::move(subspaces[i]);
    set.reports[i].steps = number[3 * i];
    set.reports[i].steps_clipped = number[3 * i + 1];
  }
}

}  // namespace spectralclip::torch

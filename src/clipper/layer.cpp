// SPDX-License-Identifier: Apache-2.0
#include "clipper/layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <new>
#include <tuple>
#include <unordered_set>

#include "clip/clip_one.h"
#include "clip/scale_to_norm.h"
#include "clipper/hints.h"
#include "constants.h"
#include "random/name_hash.h"
#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip {
namespace {

// Layer names are checkpoint keys. "a" as a batch and a parameter called "a[0]" would share one.
void require_unique(std::unordered_set<std::string>& names, const std::string& name) {
  SPECTRALCLIP_REQUIRE(names.insert(name).second, "two parameters are called \"", name,
                       "\" (after wrapper prefixes were dropped)");
}

ClipOptions options_for(const Rule& rule, const Parameter& parameter, const ClipperOptions& options,
                        const Matricized& shape) {
  ClipOptions clip = rule.clip.value_or(parameter.clip.value_or(options.clip));
  if (clip.rank) clip.rank = std::min(*clip.rank, std::min(shape.rows, shape.cols));
  clip.observe_only = clip.observe_only || options.observe_only;
  return clip;
}

std::vector<Rule> validated_rules(const ClipperOptions& options) {
  validate(options.threshold);
  validate(options.clip);
  SPECTRALCLIP_REQUIRE(options.on_nonfinite <= OnNonFinite::leave_all,
                       "on_nonfinite = ", static_cast<int>(options.on_nonfinite),
                       " is neither leave_layer (0) nor leave_all (1)");
  for (const Rule& rule : options.rules) {
    if (rule.threshold) validate(*rule.threshold);
    if (rule.clip) validate(*rule.clip);
  }
  std::vector<Rule> rules = options.rules;
  const std::vector<Rule> defaults = default_rules();
  rules.insert(rules.end(), defaults.begin(), defaults.end());
  return rules;
}

void validate_own(const Parameter& parameter) try {
  if (parameter.threshold) validate(*parameter.threshold);
  if (parameter.clip) validate(*parameter.clip);
} catch (const InvalidArgument& error) {
  throw InvalidArgument(detail::concat("parameter \"", parameter.name, "\": ", error.what()));
}

ClipReport measured(double tau, double norm) {
  ClipReport report;
  if (!std::isfinite(norm)) report.status = std::isnan(norm) ? ClipStatus::not_finite : ClipStatus::out_of_range;
  report.tau = tau;
  report.norm_before = report.norm_after = report.sigma_max = report.sigma_bound = norm;
  report.passes = 1;
  return report;
}

ClipReport treated(Layer& layer, const LayerReport& report, const AnyMatrix& G, Workspace& workspace,
                   Executor& executor, ClipFactors* factors) {
  if (report.treatment == Treatment::skip) return measured(kInfinity, frobenius_norm(G, executor));
  const double tau = threshold(layer.threshold, layer.threshold_state);
  if (report.treatment == Treatment::norm) return scale_to_norm(G, tau, !layer.clip.observe_only, executor, factors);
  const RandomStream stream{
      .seed = layer.clip.seed, .matrix_id = layer.matrix_id, .step = static_cast<std::uint64_t>(report.steps)};
  return clip_one(G, tau, layer.clip, stream, layer.subspace, workspace, executor, factors);
}

// What memory runs out for is left as it was, gradient and state, and the others go on: once a layer is written a step
// can no longer fail as a whole. (Vectors are kept after all memory of a clip was had, so numbers are all there is to
// take back.)
ClipReport run_treatment(Layer& layer, const LayerReport& report, const AnyMatrix& G, Workspace& workspace,
                         Executor& executor, ClipFactors* factors) {
  SubspaceState& state = layer.subspace;
  const std::array before = {state.cols, state.columns, state.kept, state.calm_steps, state.clipped_lately};
  try {
    return treated(layer, report, G, workspace, executor, factors);
  } catch (const std::bad_alloc&) {
    std::tie(state.cols, state.columns, state.kept, state.calm_steps, state.clipped_lately) = std::tuple_cat(before);
    if (factors != nullptr) factors->clear();
    ClipReport failed = measured(kInfinity, frobenius_norm(G));
    failed.status = ClipStatus::out_of_memory;
    return failed;
  }
}

}  // namespace

namespace {

LayerReport report_of(const Parameter& parameter, std::size_t number, const Rule& rule, const Matricized& shape,
                      std::int64_t index) {
  LayerReport report;
  report.name = shape.count == 1 ? parameter.name : detail::concat(parameter.name, "[", index, "]");
  report.parameter = number;
  report.rows = shape.rows;
  report.cols = shape.cols;
  report.treatment = rule.treatment;
  report.rule = rule.label;
  return report;
}

Layer layer_of(const Parameter& parameter, std::size_t number, const Rule& rule, const ClipperOptions& options,
               const Matricized& shape, std::int64_t index) {
  Layer layer;
  layer.parameter = number;
  layer.index = index;
  layer.batch_axes = rule.batch_axes;
  layer.row_axes = rule.row_axes;
  layer.matrix_id = matrix_id_of(parameter.name, index);
  layer.part = part_of(parameter, rule, shape);
  layer.clip = options_for(rule, parameter, options, shape);
  layer.threshold = rule.threshold.value_or(parameter.threshold.value_or(options.threshold));
  layer.threshold_state = make_threshold_state(layer.threshold);
  return layer;
}

}  // namespace

void append_layers(LayerSet& set, const std::vector<Parameter>& parameters, const ClipperOptions& options,
                   std::size_t first) {
  const std::vector<Rule> rules = validated_rules(options);
  LayerSet added;
  std::unordered_set<std::string> parameter_names;
  std::unordered_set<std::string> layer_names;
  for (const LayerReport& report : set.reports) layer_names.insert(report.name);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    Parameter parameter = parameters[p];
    parameter.name = normalized_name(parameter.name);
    require_unique(parameter_names, parameter.name);
    validate_own(parameter);
    const Rule& rule = find_rule(rules, parameters[p]);
    const Matricized shape = matricize(rule, parameter);
    for (std::int64_t index = 0; index < shape.count; ++index) {
      added.reports.push_back(report_of(parameter, first + p, rule, shape, index));
      require_unique(layer_names, added.reports.back().name);
      added.layers.push_back(layer_of(parameter, first + p, rule, options, shape, index));
      if (index == 0) require_shardable(added.layers.back().part, added.layers.back().clip, added.reports.back());
    }
  }
  add_hints(added, parameters, first);
  set.layers.reserve(set.layers.size() + added.layers.size());  // below nothing throws
  set.reports.reserve(set.reports.size() + added.reports.size());
  std::move(added.layers.begin(), added.layers.end(), std::back_inserter(set.layers));
  std::move(added.reports.begin(), added.reports.end(), std::back_inserter(set.reports));
}

void require_usable(const Gradient& gradient, const Layer& layer, const LayerReport& report) {
  SPECTRALCLIP_REQUIRE(gradient.type <= ScalarType::float16, "layer \"", report.name, "\": scalar type ",
                       static_cast<int>(gradient.type), " is none of float32, float64, bfloat16, float16");
  const auto [rows, cols] = local_shape(layer.part, report);
  if (rows == 0 || cols == 0) return;
  SPECTRALCLIP_REQUIRE(is_aligned(gradient.data, gradient.type), "layer \"", report.name, "\": the address ",
                       gradient.data, " is not a multiple of the ", size_of(gradient.type), " bytes of ",
                       to_string(gradient.type));
  const std::int64_t stride = gradient.row_stride == 0 ? cols : gradient.row_stride;
  SPECTRALCLIP_REQUIRE(stride >= cols, "layer \"", report.name, "\": row_stride = ", gradient.row_stride,
                       " is below its ", cols, " columns");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / size_of(gradient.type) / stride / rows;
  SPECTRALCLIP_REQUIRE(layer.index < most, "layer \"", report.name, "\": row_stride = ", gradient.row_stride,
                       " reaches beyond the address space");
}

AnyMatrix matrix_of(const Gradient& gradient, const Layer& layer, const LayerReport& report) noexcept {
  const auto [rows, cols] = local_shape(layer.part, report);
  const std::int64_t stride = gradient.row_stride == 0 ? cols : gradient.row_stride;
  const std::int64_t index = layer.index - (layer.part.split == Split::matrices ? layer.part.first : 0);
  const std::int64_t offset = index * rows * stride * size_of(gradient.type);
  return {static_cast<std::byte*>(gradient.data) + offset, gradient.type, rows, cols, stride};
}

void record_clip(Layer& layer, LayerReport& report, const ClipReport& clip) {
  report.has_gradient = true;
  report.clip = clip;
  const ClipStatus status = report.clip.status;
  if (!observed(status)) return;
  const double seen = report.treatment == Treatment::spectral ? report.clip.sigma_max : report.clip.norm_before;
  if (report.treatment != Treatment::skip) (void)observe(layer.threshold, layer.threshold_state, seen);
  ++report.steps;
  if (report.clip.clipped > 0) ++report.steps_clipped;
}

void clip_layer(Layer& layer, LayerReport& report, const AnyMatrix& G, Workspace& workspace, Executor& executor,
                ClipFactors* factors) {
  record_clip(layer, report, run_treatment(layer, report, G, workspace, executor, factors));
}

bool record_norm(LayerReport& report, double norm) {
  report.has_gradient = true;
  report.clip = measured(kInfinity, norm);
  return report.clip.status == ClipStatus::ok;
}

bool measure_layer(LayerReport& report, const AnyMatrix& G, Executor& executor) {
  return record_norm(report, frobenius_norm(G, executor));
}

}  // namespace spectralclip

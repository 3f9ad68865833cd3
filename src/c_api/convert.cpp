// SPDX-License-Identifier: Apache-2.0
#include "c_api/convert.h"

#include <algorithm>

#include "c_api/sized.h"
#include "require.h"

namespace spectralclip::c_api {
namespace {

// `last` is the largest enumerator; all enumerations of the interface count up from 0.
template <class Enum>
Enum enum_from(std::int32_t value, Enum last, const char* field) {
  SPECTRALCLIP_REQUIRE(value >= 0 && value <= static_cast<std::int32_t>(last), field, " = ", value, " is not in [0, ",
                       static_cast<int>(last), "]");
  return static_cast<Enum>(value);
}

bool flag_from(std::int32_t value, const char* field) {
  SPECTRALCLIP_REQUIRE(value == 0 || value == 1, field, " = ", value, " is neither 0 nor 1");
  return value == 1;
}

template <class T>
void require_array(const T* array, std::int64_t count, const char* name) {
  SPECTRALCLIP_REQUIRE(count >= 0, "the number of ", name, " is ", count);
  SPECTRALCLIP_REQUIRE(count == 0 || array != nullptr, name, " is NULL, their number is ", count);
}

const char* text_from(const char* text, const char* name, std::int64_t i) {
  SPECTRALCLIP_REQUIRE(text != nullptr, name, " of index ", i, " is NULL");
  return text;
}

Rule rule_from(const sclip_rule& rule, std::int64_t i) {
  Rule result;
  result.name_pattern = text_from(rule.name_pattern, "name_pattern of the rule", i);
  result.min_dims = rule.min_dims;
  result.max_dims = rule.max_dims;
  result.treatment = enum_from(rule.treatment, Treatment::skip, "treatment");
  result.batch_axes = rule.batch_axes;
  result.row_axes = rule.row_axes;
  if (rule.threshold != nullptr) result.threshold = threshold_options_from(rule.threshold);
  if (rule.clip != nullptr) result.clip = clip_options_from(rule.clip);
  if (rule.label != nullptr) result.label = rule.label;
  return result;
}

Rule skip_rule(const char* pattern) {
  Rule rule;
  rule.name_pattern = pattern;
  rule.treatment = Treatment::skip;
  rule.row_axes = 0;  // any shape will do
  rule.label = "skipped by pattern";
  return rule;
}

}  // namespace

ScalarType scalar_type_from(std::int32_t type) { return enum_from(type, ScalarType::float16, "scalar type"); }

AnyMatrix matrix_from(const sclip_matrix* given) {
  SPECTRALCLIP_REQUIRE(given != nullptr, "the matrix is NULL");
  const sclip_matrix G = taken_over(given, sclip_matrix{}, "sclip_matrix");
  const std::int64_t stride = G.row_stride == 0 ? G.cols : G.row_stride;
  return {G.data, scalar_type_from(G.type), G.rows, G.cols, stride};
}

ClipOptions clip_options_from(const sclip_clip_options* given) {
  if (given == nullptr) return {};
  const sclip_clip_options options = taken_over(given, to_c(ClipOptions{}), "sclip_clip_options");
  ClipOptions result;
  result.method = enum_from(options.method, Method::automatic, "method");
  if (options.rank != 0) result.rank = options.rank;
  result.oversampling = options.oversampling;
  result.power_passes = options.power_passes;
  result.tolerance = options.tolerance;
  result.margin = options.margin;
  result.max_passes = options.max_passes;
  result.max_columns = options.max_columns;
  result.exhausted = enum_from(options.exhausted, Exhausted::automatic, "exhausted");
  result.observe_only = flag_from(options.observe_only, "observe_only");
  result.measure_time = flag_from(options.measure_time, "measure_time");
  result.seed = options.seed;
  return result;
}

ThresholdOptions threshold_options_from(const sclip_threshold_options* given) {
  if (given == nullptr) return {};
  const sclip_threshold_options options = taken_over(given, to_c(ThresholdOptions{}), "sclip_threshold_options");
  ThresholdOptions result;
  result.kind = enum_from(options.kind, ThresholdKind::quantile, "threshold kind");
  result.tau = options.tau;
  result.decay = options.decay;
  result.quantile = options.quantile;
  result.window = options.window;
  result.first_step = enum_from(options.first_step, FirstStep::zero, "first_step");
  result.interpolation = enum_from(options.interpolation, Interpolation::linear, "interpolation");
  result.slack = options.slack;
  result.floor = options.floor;
  result.cap = options.cap;
  result.warmup_steps = options.warmup_steps;
  result.observe_zeros = flag_from(options.observe_zeros, "observe_zeros");
  return result;
}

sclip_rule default_rule() noexcept {
  sclip_rule rule{};
  rule.struct_size = sizeof rule;
  rule.name_pattern = "*";
  rule.max_dims = 1 << 20;
  rule.row_axes = 1;
  return rule;
}

sclip_clipper_options default_clipper_options() noexcept {
  sclip_clipper_options options{};
  options.struct_size = sizeof options;
  options.on_nonfinite = SCLIP_NONFINITE_LEAVE_LAYER;
  return options;
}

ClipperOptions clipper_options_from(const sclip_clipper_options& options) {
  require_array(options.skip_patterns, options.skip_pattern_count, "skip_patterns");
  const SizedArray rules(options.rules, options.rule_count, "sclip_rule");
  ClipperOptions result;
  result.threshold = threshold_options_from(options.threshold);
  result.clip = clip_options_from(options.clip);
  for (std::int64_t i = 0; i < options.skip_pattern_count; ++i)
    result.rules.push_back(skip_rule(text_from(options.skip_patterns[i], "skip pattern", i)));
  for (std::int64_t i = 0; i < options.rule_count; ++i) result.rules.push_back(rule_from(rules[i], i));
  result.on_nonfinite = enum_from(options.on_nonfinite, OnNonFinite::leave_all, "on_nonfinite");
  result.observe_only = flag_from(options.observe_only, "observe_only");
  return result;
}

std::vector<Parameter> parameters_from(const sclip_parameter* given, std::int64_t count) {
  const SizedArray parameters(given, count, "sclip_parameter");
  std::vector<Parameter> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const sclip_parameter parameter = parameters[i];
    const char* const name = text_from(parameter.name, "name of the parameter", i);
    require_array(parameter.shape, parameter.dims, "axes");
    result.push_back({name, {}});
    if (parameter.dims > 0) result.back().shape.assign(parameter.shape, parameter.shape + parameter.dims);
  }
  return result;
}

sclip_clip_options to_c(const ClipOptions& options) noexcept {
  return {.struct_size = sizeof(sclip_clip_options),
          .method = static_cast<std::int32_t>(options.method),
          .rank = options.rank.value_or(0),
          .oversampling = options.oversampling,
          .power_passes = options.power_passes,
          .tolerance = options.tolerance,
          .margin = options.margin,
          .max_passes = options.max_passes,
          .max_columns = options.max_columns,
          .exhausted = static_cast<std::int32_t>(options.exhausted),
          .observe_only = options.observe_only,
          .measure_time = options.measure_time,
          .seed = options.seed};
}

sclip_threshold_options to_c(const ThresholdOptions& options) noexcept {
  return {.struct_size = sizeof(sclip_threshold_options),
          .kind = static_cast<std::int32_t>(options.kind),
          .tau = options.tau,
          .decay = options.decay,
          .quantile = options.quantile,
          .window = options.window,
          .first_step = static_cast<std::int32_t>(options.first_step),
          .interpolation = static_cast<std::int32_t>(options.interpolation),
          .slack = options.slack,
          .floor = options.floor,
          .cap = options.cap,
          .warmup_steps = options.warmup_steps,
          .observe_zeros = options.observe_zeros};
}

sclip_clip_report to_c(const ClipReport& report) noexcept {
  static_assert(sizeof(sclip_clip_report::seconds) == sizeof(ClipReport::seconds));
  sclip_clip_report result{.struct_size = sizeof(sclip_clip_report),
                           .status = static_cast<std::int32_t>(report.status),
                           .method = static_cast<std::int32_t>(report.method),
                           .tau = report.tau,
                           .sigma_max = report.sigma_max,
                           .clipped = report.clipped,
                           .norm_before = report.norm_before,
                           .norm_after = report.norm_after,
                           .removed_energy = report.removed_energy,
                           .sigma_bound = report.sigma_bound,
                           .bound_kind = static_cast<std::int32_t>(report.bound_kind),
                           .error_estimate = report.error_estimate,
                           .passes = report.passes,
                           .columns = report.columns,
                           .seconds = {}};
  std::copy(report.seconds.begin(), report.seconds.end(), result.seconds);
  return result;
}

sclip_layer_report to_c(const LayerReport& report) noexcept {
  return {.struct_size = sizeof(sclip_layer_report),
          .name = report.name.c_str(),
          .rows = report.rows,
          .cols = report.cols,
          .treatment = static_cast<std::int32_t>(report.treatment),
          .rule = report.rule.c_str(),
          .has_gradient = report.has_gradient,
          .steps = report.steps,
          .steps_clipped = report.steps_clipped,
          .hint = report.hint.c_str()};
}

sclip_step_report to_c(const StepReport& report) noexcept {
  return {.struct_size = sizeof(sclip_step_report),
          .step = report.step,
          .total_norm = report.total_norm,
          .norm_after = report.norm_after,
          .layers_clipped = report.layers_clipped,
          .layers_not_finite = report.layers_not_finite,
          .layers_rank_exhausted = report.layers_rank_exhausted,
          .layers_not_converged = report.layers_not_converged,
          .layers_out_of_range = report.layers_out_of_range,
          .layers_out_of_memory = report.layers_out_of_memory,
          .left_all = report.left_all};
}

}  // namespace spectralclip::c_api

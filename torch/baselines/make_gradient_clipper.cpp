// SPDX-License-Identifier: Apache-2.0
// Names and ranges of the options, and the choice among the clippers.
#include <cmath>

#include "baselines/clippers.h"
#include "baselines/enum_names.h"
#include "tensor/gradients.h"

namespace spectralclip::torch {
namespace {

constexpr std::array<EnumName<GradientClip>, 8> kKinds = {{{GradientClip::none, "none"},
                                                           {GradientClip::global_norm, "global_norm"},
                                                           {GradientClip::layer_norm, "layer_norm"},
                                                           {GradientClip::agc, "agc"},
                                                           {GradientClip::coordinate, "coordinate"},
                                                           {GradientClip::spectral, "spectral"},
                                                           {GradientClip::soft, "soft"},
                                                           {GradientClip::soft_update, "soft_update"}}};

void require_limit(const char* option, double value) {
  SPECTRALCLIP_REQUIRE(value >= 0, option, " = ", value, " must lie in [0, infinity]");
}

void require_positive(const char* option, double value) {
  SPECTRALCLIP_REQUIRE(value > 0 && std::isfinite(value), option, " = ", value, " must be finite and > 0");
}

}  // namespace

const char* to_string(GradientClip kind) noexcept { return name_of(kKinds, kind); }
GradientClip parse_gradient_clip(std::string_view name) { return parse_name("gradient clip", kKinds, name); }

void validate(const GradientClipOptions& options) {
  require_named("gradient clip", kKinds, options.kind);
  require_limit("max_norm", options.max_norm);
  require_positive("agc_factor", options.agc_factor);
  SPECTRALCLIP_REQUIRE(options.agc_epsilon >= 0 && std::isfinite(options.agc_epsilon),
                       "agc_epsilon = ", options.agc_epsilon, " must be finite and >= 0");
  require_limit("max_value", options.max_value);
  require_positive("soft_scale", options.soft_scale);
  validate(options.spectral.threshold);
  validate(options.spectral.clip);
}

GradientClipper::GradientClipper(const NamedTensors& parameters) : parameters_(distinct_tensors(parameters)) {}

at::Tensor GradientClipper::before_step() {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  return clip(gradients);
}

at::Tensor GradientClipper::clip_one(std::size_t parameter, const at::Tensor& value) {
  std::vector<at::Tensor> values(parameters_.size());
  values.at(parameter) = value;
  return clip(values);
}

void GradientClipper::deserialize(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return;
  throw StateFileError(detail::concat("this gradient clipper keeps no state, but ", bytes.size(),
                                      " bytes were given: they belong to a spectral one"));
}

std::unique_ptr<GradientClipper> make_gradient_clipper(const NamedTensors& parameters,
                                                       const GradientClipOptions& options) {
  validate(options);
  switch (options.kind) {
    case GradientClip::spectral:
      return make_spectral_clipper(parameters, options);
    case GradientClip::soft:
      return make_soft_clipper(parameters, options);
    case GradientClip::soft_update:
      return make_soft_update_clipper(parameters, options);
    default:
      return make_elementary_clipper(parameters, options);
  }
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient_clipper_object.h"

#include <ATen/ATen.h>

#include "ops/clipper_object.h"
#include "require.h"

namespace spectralclip::torch {

GradientClipperObject::GradientClipperObject(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                                             const SettingTexts& settings, const std::vector<SettingTexts>& rules) {
  SPECTRALCLIP_REQUIRE(names.size() == parameters.size(), names.size(), " names for ", parameters.size(),
                       " parameters");
  NamedTensors named;
  for (std::size_t i = 0; i < names.size(); ++i) named.emplace_back(std::move(names[i]), parameters[i]);
  clipper_ = make_gradient_clipper(named, gradient_clip_options(settings, rules));
}

at::Tensor GradientClipperObject::clip(const std::vector<at::Tensor>& values,
                                       const std::vector<std::int64_t>& numbers) {
  return clipper_->clip(spread(values, numbers, clipper_->parameters().size()));
}

}  // namespace spectralclip::torch

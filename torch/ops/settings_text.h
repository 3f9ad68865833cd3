// SPDX-License-Identifier: Apache-2.0
// Options as other languages hand them over: a list of "name=value", names as in settings.h.
#pragma once

#include <string>
#include <vector>

#include "spectralclip/torch/clipper.h"
#include "spectralclip/torch/gradient_clipper.h"

namespace spectralclip::torch {

using SettingTexts = std::vector<std::string>;

[[nodiscard]] ClipOptions clip_options(const SettingTexts& texts, ClipOptions options = {});
// "clip.x=…" and "threshold.x=…" entries of a rule become its own options.
[[nodiscard]] Rule rule_from(const SettingTexts& texts);
// … and of a parameter, its own.
[[nodiscard]] Parameter parameter_from(std::string name, std::vector<std::int64_t> shape, const SettingTexts& texts);
// "clip.x=…", "threshold.x=…", and on_nonfinite, observe_only, backend, error_if_nonfinite.
[[nodiscard]] SpectralClipperOptions clipper_options(const SettingTexts& texts, const std::vector<SettingTexts>& rules);

// kind, max_norm, agc_factor, agc_epsilon, max_value, soft_scale, backend.
[[nodiscard]] GradientClipOptions gradient_clip_options(const SettingTexts& texts,
                                                        const std::vector<SettingTexts>& rules);

}  // namespace spectralclip::torch

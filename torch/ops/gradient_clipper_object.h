// SPDX-License-Identifier: Apache-2.0
// The clippers to compare with as an object of the Python package (torch::class_).
#pragma once

#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/settings_text.h"
#include "spectralclip/torch/gradient_clipper.h"

namespace spectralclip::torch {

class GradientClipperObject final : public ::torch::CustomClassHolder {
 public:
  // settings: kind=…, max_norm=…, agc_factor=…, agc_epsilon=…, max_value=…, soft_scale=…, backend=….
  GradientClipperObject(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                        const SettingTexts& settings, const std::vector<SettingTexts>& rules);

  // values[i] belongs to parameter numbers[i]; the others are absent. Returns the total norm before.
  at::Tensor clip(const std::vector<at::Tensor>& values, const std::vector<std::int64_t>& numbers);
  [[nodiscard]] bool is_separable() const { return clipper_->is_separable(); }

 private:
  std::unique_ptr<GradientClipper> clipper_;
};

}  // namespace spectralclip::torch

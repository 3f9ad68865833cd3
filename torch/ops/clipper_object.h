// SPDX-License-Identifier: Apache-2.0
// The clipper as an object of the Python package (torch::class_), and its handle: operators that torch.compile can see
// take a number, not an object.
#pragma once

#include <torch/custom_class.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "ops/layer_tables.h"
#include "ops/settings_text.h"

namespace spectralclip::torch {

// values[i] at place numbers[i] of `count`; the others undefined. Throws InvalidArgument for a number beyond.
[[nodiscard]] std::vector<at::Tensor> spread(const std::vector<at::Tensor>& values,
                                             const std::vector<std::int64_t>& numbers, std::size_t count);

class ClipperObject final : public ::torch::CustomClassHolder {
 public:
  ClipperObject(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                const std::vector<SettingTexts>& own, const SettingTexts& settings,
                const std::vector<SettingTexts>& rules);
  ~ClipperObject() override;

  // gradients[i] belongs to parameter numbers[i]; the others have none in this step.
  at::Tensor step(const std::vector<at::Tensor>& gradients, const std::vector<std::int64_t>& numbers);
  at::Tensor step_parameter(std::int64_t number, const at::Tensor& gradient);
  void add_parameters(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                      const std::vector<SettingTexts>& own);

  // Per layer: name, treatment, rule; number of its parameter, rows, cols, steps, steps_clipped (layers x 5, int64);
  // and its latest clip (layers x kReportFields, NaN without a gradient). On the host.
  using Report =
      std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<std::string>, at::Tensor, at::Tensor>;
  [[nodiscard]] Report report() const;
  [[nodiscard]] std::vector<std::string> thresholds() const { return clipper_.thresholds(); }
  // values of report() alone, left on their device.
  [[nodiscard]] at::Tensor report_values() const { return clipper_.report_values(); }
  // Of each layer, "" mostly: what may not be meant (LayerReport::hint). What the latest load could not take over.
  [[nodiscard]] std::vector<std::string> hints() const;
  [[nodiscard]] std::vector<std::string> load_notes() const;

  // For engines in Python (layer_tables.h).
  [[nodiscard]] LayerPlan plan();
  [[nodiscard]] LayerStates states();
  void set_states(const at::Tensor& counts, const at::Tensor& averages, const std::vector<at::Tensor>& windows,
                  const std::vector<at::Tensor>& vectors);

  [[nodiscard]] std::int64_t steps() const noexcept { return clipper_.steps(); }
  [[nodiscard]] std::int64_t handle() const noexcept { return handle_; }
  [[nodiscard]] at::Tensor serialize() const;  // uint8
  void deserialize(const at::Tensor& bytes);

  [[nodiscard]] static ClipperObject& by_handle(std::int64_t handle);  // throws InvalidArgument when it is gone

 private:
  SpectralClipper clipper_;
  std::int64_t handle_ = 0;
};

[[nodiscard]] ClipperObject::Report report_of(const spectralclip::StepReport& report);

}  // namespace spectralclip::torch

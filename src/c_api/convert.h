// SPDX-License-Identifier: Apache-2.0
// Between the structs of c_api.h and those of the C++ interface. What C can get wrong and C++ cannot (NULL, a constant
// that is no enumerator, a struct nobody initialised) is refused here with InvalidArgument; ranges are checked inside.
#pragma once

#include <vector>

#include "spectralclip/c_api.h"
#include "spectralclip/clipper.h"

namespace spectralclip::c_api {

[[nodiscard]] AnyMatrix matrix_from(const sclip_matrix* given);
// NULL: defaults.
[[nodiscard]] ClipOptions clip_options_from(const sclip_clip_options* given);
[[nodiscard]] ThresholdOptions threshold_options_from(const sclip_threshold_options* given);
[[nodiscard]] ClipperOptions clipper_options_from(const sclip_clipper_options& options);  // of this library's size
[[nodiscard]] std::vector<Parameter> parameters_from(const sclip_parameter* given, std::int64_t count);
[[nodiscard]] ScalarType scalar_type_from(std::int32_t type);

[[nodiscard]] sclip_rule default_rule() noexcept;
[[nodiscard]] sclip_clipper_options default_clipper_options() noexcept;
[[nodiscard]] sclip_clip_options to_c(const ClipOptions& options) noexcept;
[[nodiscard]] sclip_threshold_options to_c(const ThresholdOptions& options) noexcept;
[[nodiscard]] sclip_clip_report to_c(const ClipReport& report) noexcept;
[[nodiscard]] sclip_layer_report to_c(const LayerReport& report) noexcept;
[[nodiscard]] sclip_step_report to_c(const StepReport& report) noexcept;

}  // namespace spectralclip::c_api

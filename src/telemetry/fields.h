// SPDX-License-Identifier: Apache-2.0
// The fields of a layer and the choice of steps and layers, declared once for both writers.
#pragma once

#include <array>

#include "spectralclip/telemetry.h"
#include "telemetry/text.h"

namespace spectralclip::telemetry {

struct Field {
  const char* name;
  Value value;
};
inline constexpr std::size_t kLayerFields = 13;

// Strings are borrowed from `layer`. A skipped layer has no sigma1, tau or bound: null.
[[nodiscard]] std::array<Field, kLayerFields> layer_fields(const LayerReport& layer);

void validate(const TelemetryOptions& options);
[[nodiscard]] bool is_due(const TelemetryOptions& options, const StepReport& report) noexcept;
// A layer without gradient in this step has nothing to say and is not listed.
[[nodiscard]] bool is_listed(const TelemetryOptions& options, const LayerReport& layer) noexcept;

}  // namespace spectralclip::telemetry

// SPDX-License-Identifier: Apache-2.0
// What is written of a layer, under which names.
#include "telemetry/fields.h"

#include <limits>
#include <numeric>

#include "require.h"

namespace spectralclip::telemetry {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();  // null in JSON, empty in CSV

double milliseconds(const ClipReport& clip) noexcept {
  return 1e3 * std::accumulate(clip.seconds.begin(), clip.seconds.end(), 0.0);
}

double clipped_share(const LayerReport& layer) noexcept {
  return layer.steps > 0 ? static_cast<double>(layer.steps_clipped) / static_cast<double>(layer.steps) : kNothing;
}

}  // namespace

std::array<Field, kLayerFields> layer_fields(const LayerReport& layer) {
  const ClipReport& clip = layer.clip;
  const bool measured = layer.treatment != Treatment::skip;
  return {{{"name", std::string_view(layer.name)},
           {"sigma1", measured ? clip.sigma_max : kNothing},
           {"tau", measured ? clip.tau : kNothing},
           {"n_clipped", clip.clipped},
           {"saturated", clip.status == ClipStatus::rank_exhausted},
           {"status", std::string_view(to_string(clip.status))},
           {"rule", std::string_view(layer.rule)},
           {"removed_energy", clip.removed_energy},
           {"sigma_bound", measured ? clip.sigma_bound : kNothing},
           {"bound", std::string_view(to_string(clip.bound_kind))},
           {"passes", std::int64_t{clip.passes}},
           {"ms", milliseconds(clip)},
           {"clipped_share", clipped_share(layer)}}};
}

void validate(const TelemetryOptions& options) {
  SPECTRALCLIP_REQUIRE(options.every >= 1, "telemetry: every = ", options.every, " must be >= 1");
}

bool is_due(const TelemetryOptions& options, const StepReport& report) noexcept {
  return report.step % options.every == 0;
}

bool is_listed(const TelemetryOptions& options, const LayerReport& layer) noexcept {
  if (!layer.has_gradient || !glob_match(options.name_pattern, layer.name)) return false;
  return !options.only_clipped || layer.clip.clipped > 0 || layer.clip.status != ClipStatus::ok;
}

}  // namespace spectralclip::telemetry

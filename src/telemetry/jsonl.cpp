// SPDX-License-Identifier: Apache-2.0
// One JSON object a step, on one line. The line is built whole and then written at once.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "require.h"
#include "spectralclip/telemetry.h"
#include "telemetry/fields.h"

namespace spectralclip {
namespace {

using telemetry::Field;

void append_member(std::string& line, std::string_view name, const telemetry::Value& value) {
  if (line.back() != '{') line += ',';
  telemetry::append_json(line, name);
  line += ':';
  telemetry::append_json(line, value);
}

using StepFields = std::array<Field, 9>;

StepFields step_fields(const StepReport& report) {
  return {{{"step", report.step},
           {"grad_norm_pre", report.total_norm},
           {"grad_norm_post", report.norm_after},
           {"layers_clipped", report.layers_clipped},
           {"layers_not_finite", report.layers_not_finite},
           {"layers_rank_exhausted", report.layers_rank_exhausted},
           {"layers_not_converged", report.layers_not_converged},
           {"layers_out_of_range", report.layers_out_of_range},
           {"layers_out_of_memory", report.layers_out_of_memory}}};
}

// A repeated key would leave it to each JSON reader which value to believe.
void require_new_names(const StepFields& own, const ExtraFields& extra) {
  for (auto field = extra.begin(); field != extra.end(); ++field) {
    const std::string& name = field->first;
    const bool reserved =
        name == "layers" || std::any_of(own.begin(), own.end(), [&](const Field& f) { return f.name == name; });
    const bool repeated = std::any_of(extra.begin(), field, [&](const auto& earlier) { return earlier.first == name; });
    SPECTRALCLIP_REQUIRE(!reserved && !repeated, "telemetry: extra field \"", name, "\" is already in the object");
  }
}

void append_layers(std::string& line, const TelemetryOptions& options, const StepReport& report) {
  line += ",\"layers\":[";
  for (const LayerReport& layer : report.layers) {
    if (!telemetry::is_listed(options, layer)) continue;
    line += line.back() == '[' ? "{" : ",{";
    for (const Field& field : telemetry::layer_fields(layer)) append_member(line, field.name, field.value);
    line += '}';
  }
  line += ']';
}

}  // namespace

JsonlWriter::JsonlWriter(std::ostream& out, TelemetryOptions options) : out_(out), options_(std::move(options)) {
  telemetry::validate(options_);
}

void JsonlWriter::write(const StepReport& report, const ExtraFields& extra) {
  const auto own = step_fields(report);
  require_new_names(own, extra);
  if (!telemetry::is_due(options_, report)) return;
  std::string line = "{";
  append_member(line, own[0].name, own[0].value);
  for (const auto& [name, value] : extra) append_member(line, name, value);
  for (std::size_t i = 1; i < own.size(); ++i) append_member(line, own[i].name, own[i].value);
  append_layers(line, options_, report);
  line += "}\n";
  telemetry::write_text(out_, line);
}

}  // namespace spectralclip

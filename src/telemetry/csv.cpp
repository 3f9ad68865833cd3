// SPDX-License-Identifier: Apache-2.0
// One CSV row a layer a step: the step, then the fields that the JSON layers have. Totals of a step are in the JSON
// only.
#include <string>
#include <utility>

#include "spectralclip/telemetry.h"
#include "telemetry/fields.h"

namespace spectralclip {
namespace {

std::string header() {
  std::string line = "step";
  for (const auto& field : telemetry::layer_fields({})) line.append(",").append(field.name);
  return line + '\n';
}

void append_row(std::string& text, std::int64_t step, const LayerReport& layer) {
  telemetry::append_csv(text, step);
  for (const auto& field : telemetry::layer_fields(layer)) {
    text += ',';
    telemetry::append_csv(text, field.value);
  }
  text += '\n';
}

}  // namespace

CsvWriter::CsvWriter(std::ostream& out, TelemetryOptions options) : out_(out), options_(std::move(options)) {
  telemetry::validate(options_);
}

// The header comes with the first step that is due, even if it lists no layer: a quiet run is a table without rows.
void CsvWriter::write(const StepReport& report) {
  if (!telemetry::is_due(options_, report)) return;
  std::string text = header_written_ ? "" : header();
  for (const LayerReport& layer : report.layers) {
    if (telemetry::is_listed(options_, layer)) append_row(text, report.step, layer);
  }
  telemetry::write_text(out_, text);
  header_written_ = true;
}

}  // namespace spectralclip

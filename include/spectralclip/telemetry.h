// SPDX-License-Identifier: Apache-2.0
// Step reports as files: JSON lines (one object a step) and CSV (one row a layer a step). Non-finite numbers are
// null in JSON and empty in CSV, so that any reader takes them.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spectralclip/clipper.h"
#include "spectralclip/export.h"

namespace spectralclip {

struct TelemetryOptions {
  std::int64_t every = 1;          // write each `every`-th step
  std::string name_pattern = "*";  // glob: which layers are listed
  bool only_clipped = false;       // list only layers that were clipped or went wrong
};

// Extra fields of the caller's own for a step ("loss", "lr", …), written before the layers.
using ExtraFields = std::vector<std::pair<std::string, double>>;

class SPECTRALCLIP_EXPORT JsonlWriter {
 public:
  explicit JsonlWriter(std::ostream& out, TelemetryOptions options = {});
  void write(const StepReport& report, const ExtraFields& extra = {});

 private:
  std::ostream& out_;
  TelemetryOptions options_;
};

class SPECTRALCLIP_EXPORT CsvWriter {
 public:
  explicit CsvWriter(std::ostream& out, TelemetryOptions options = {});  // writes the header with the first row
  void write(const StepReport& report);

 private:
  std::ostream& out_;
  TelemetryOptions options_;
  bool header_written_ = false;
};

}  // namespace spectralclip

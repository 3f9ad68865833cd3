// SPDX-License-Identifier: Apache-2.0
// Everything that the page shows, as one JSON value.
#pragma once

#include <string>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct ModelText {
  std::string title;
  std::string command;  // that made the report
};

// {title, command, version, summary, warnings, counts, tables, settings, series, figures}. A pure function: the same
// collection gives the same bytes.
[[nodiscard]] Json make_model(const Collection& collection, const ModelText& text);

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Final results for the terminal.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct TableOptions {
  bool colour = false;  // the best row bold and green (ANSI)
};

// One table a task, one row a name (and its settings): mean ± deviation over seeds, best first and marked with a star
// when there are several. Control characters of names are shown as '?'. Ends with a newline; empty without runs.
[[nodiscard]] std::string terminal_table(const std::vector<Run>& runs, const TableOptions& options = {});

}  // namespace spectralclip::lab::report

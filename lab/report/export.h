// SPDX-License-Identifier: Apache-2.0
// Everything that runs and sweeps recorded as CSV: one table a kind, a line an observation, runs told apart by
// directory, name and seed. RFC 4180; numbers in the shortest form that reads back as the same; nothing where there is
// no number.
#pragma once

#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct Table {
  std::string name;  // of the file, without .csv
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// runs (a line a run: settings and results), metrics, layers, spectra, trials; those that have rows.
[[nodiscard]] std::vector<Table> tables_of(const Collection& collection);
[[nodiscard]] std::string csv_text(const Table& table);

// FOLDER/runs.csv, …; each whole or not at all. Returns their paths.
std::vector<std::string> write_tables(const Collection& collection, const std::string& folder);

}  // namespace spectralclip::lab::report

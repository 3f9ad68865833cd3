// SPDX-License-Identifier: Apache-2.0
// `spectralclip export`: everything that runs and sweeps recorded, as CSV.
#include "report/export.h"

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "report/collect.h"

namespace spectralclip::cli {

void add_export(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("export", "everything that runs and sweeps recorded, as CSV files");
  auto directories = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  command->add_option("DIR", *directories, "run or sweep directories, or folders of them")->required();
  command->add_option("--out", *out, "folder of the files (DIR/csv)");
  command->footer(
      "runs.csv: a line a run, with settings and results; metrics.csv, layers.csv, spectra.csv: a line a value;\n"
      "trials.csv: a line a trial of a sweep. docs/laboratory.md says what each column is.");
  command->callback([&status, directories, out] {
    const auto found = lab::report::collect(*directories);
    for (const std::string& warning : found.warnings) fmt::print(stderr, "warning: {}\n", warning);
    const std::string folder = out->empty() ? directories->front() + "/csv" : *out;
    for (const std::string& path : lab::report::write_tables(found, folder)) fmt::print("{}\n", path);
    status = kDone;
  });
}

}  // namespace spectralclip::cli

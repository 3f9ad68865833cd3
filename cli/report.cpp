// SPDX-License-Identifier: Apache-2.0
// `spectralclip report`: run and sweep directories as one HTML file, and their table in the terminal.
#include "report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include "commands.h"
#include "progress.h"
#include "report/collect.h"
#include "report/terminal_table.h"

namespace spectralclip::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> directories;
  std::string out, title = "spectralclip report";
  bool no_table = false;
};

int report(const ReportArguments& arguments) {
  const std::string out = arguments.out.empty() ? arguments.directories.front() + "/report.html" : arguments.out;
  if (!arguments.no_table) {
    const auto found = lab::report::collect(arguments.directories, {.series = false});
    fmt::print("{}", lab::report::terminal_table(found.runs, {.colour = wants_colour(STDOUT_FILENO)}));
  }
  const std::string command =
      fmt::format("spectralclip report {} --out {}", fmt::join(arguments.directories, " "), out);
  const auto result = lab::report::write_report(arguments.directories, out, {arguments.title, command});
  for (const std::string& warning : result.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{} runs, {} sweeps, {} figures: {}\n", result.runs, result.sweeps, result.figures, out);
  return kDone;
}

}  // namespace

void add_report(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("report", "one HTML file with every figure, from run and sweep directories");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("DIR", arguments->directories, "run or sweep directories, or folders of them")->required();
  command->add_option("--out", arguments->out, "the file (DIR/report.html)");
  command->add_option("--title", arguments->title, "of the page")->capture_default_str();
  command->add_flag("--no-table", arguments->no_table, "no table in the terminal");
  command->callback([arguments, &status] { status = report(*arguments); });
}

}  // namespace spectralclip::cli

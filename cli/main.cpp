// SPDX-License-Identifier: Apache-2.0
// `spectralclip`: the paper's experiments from presets, searches over their hyperparameters, reports.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "spectralclip/error.h"
#include "spectralclip/version.h"

int main(int argc, char** argv) {
  using namespace spectralclip;
  CLI::App program{"Spectral gradient clipping: run the paper's experiments, search, report."};
  program.name("spectralclip");
  program.set_version_flag("--version", version());
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(
      "examples:\n"
      "  spectralclip list\n"
      "  spectralclip run mlp-heavy-tail-sgdm-spectral-quantile --seeds 1..3\n"
      "  spectralclip report runs --out report.html\n"
      "`spectralclip COMMAND --help` says more.");
  int status = cli::kDone;
  cli::add_run(program, status);
  cli::add_sweep(program, status);
  cli::add_sample(program, status);
  cli::add_export(program, status);
  cli::add_report(program, status);
  cli::add_list(program, status);
  cli::add_data(program, status);
  cli::add_bench(program, status);
  cli::add_doctor(program, status);
  cli::add_completion(program, status);
  try {
    set_simd_target_from_environment();
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = program.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const InvalidArgument& error) {
    std::fprintf(stderr, "spectralclip: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spectralclip: %s\n", error.what());
    return 1;
  }
  return status;
}

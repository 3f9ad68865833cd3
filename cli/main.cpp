// SPDX-License-Identifier: Apache-2.0
// `spectralclip`: the paper's experiments from presets, searches over their hyperparameters, reports.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "commands.h"
#include "spectralclip/error.h"
#include "spectralclip/settings.h"
#include "spectralclip/version.h"

namespace {

// "rnu": the word, and the command that was meant.
void require_command(const CLI::App& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  const std::string near = spectralclip::nearest_name(word, names);
  throw spectralclip::InvalidArgument("no command is called \"" + word + "\"" +
                                      (near.empty() ? "" : "; did you mean \"" + near + "\"?") + " (known: " + known +
                                      ")");
}

// What a LibTorch error says, without the addresses of its callers.
std::string without_frames(const std::string& text) {
  const std::size_t frames = text.find("Exception raised from");
  const std::string said = text.substr(0, frames);
  return said.substr(0, said.find_last_not_of(" \n") + 1);
}

}  // namespace

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
  cli::add_results(program, status);
  cli::add_export_model(program, status);
  cli::add_report(program, status);
  cli::add_propose(program, status);
  cli::add_export(program, status);
  cli::add_list(program, status);
  cli::add_data(program, status);
  cli::add_bench(program, status);
  cli::add_doctor(program, status);
  cli::add_completion(program, status);
  try {
    set_simd_target_from_environment();
    require_command(program, argc, argv);
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = program.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const InvalidArgument& error) {
    std::fprintf(stderr, "spectralclip: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spectralclip: %s\n", without_frames(error.what()).c_str());
    return 1;
  }
  return status;
}

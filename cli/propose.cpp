// SPDX-License-Identifier: Apache-2.0
// `spectralclip propose`: constant thresholds from the sigma_max that a run recorded, as a table, a picture, and
// settings for the next run.
#include <fmt/format.h>

#include <filesystem>

#include "clipper/atomic_file.h"
#include "commands.h"
#include "report/proposal.h"

namespace spectralclip::cli {
namespace {

struct ProposeArguments {
  std::string run, picture;
  double share = 0.05;
  bool no_picture = false;
};

int propose(const ProposeArguments& arguments) {
  namespace fs = std::filesystem;
  const bool is_file = fs::is_regular_file(arguments.run);
  const std::string layers = is_file ? arguments.run : (fs::path(arguments.run) / "layers.jsonl").string();
  std::vector<std::string> warnings;
  const auto proposal = lab::report::propose_from(layers, arguments.share, warnings);
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print("{}", lab::report::proposal_table(proposal, arguments.share));
  fmt::print("--set clip.threshold=constant --set clip.tau={:.6g}\n", proposal.model.tau);
  if (arguments.no_picture) return kDone;
  const fs::path folder = fs::path(layers).parent_path();
  const std::string picture = arguments.picture.empty() ? (folder / "propose.svg").string() : arguments.picture;
  write_text_atomically(picture, lab::report::proposal_picture(proposal, arguments.share, arguments.run));
  fmt::print("{}\n", picture);
  return kDone;
}

}  // namespace

void add_propose(CLI::App& program, int& status) {
  auto* command =
      program.add_subcommand("propose", "constant thresholds that would have clipped a share of a run's steps");
  auto arguments = std::make_shared<ProposeArguments>();
  command->add_option("RUN", arguments->run, "a run directory, or its layers.jsonl")->required();
  command->add_option("--share", arguments->share, "of the steps, in [0, 1)")->capture_default_str();
  command->add_option("--out", arguments->picture, "the picture, an SVG file (RUN/propose.svg)");
  command->add_flag("--no-picture", arguments->no_picture, "the table alone");
  command->callback([arguments, &status] { status = propose(*arguments); });
}

}  // namespace spectralclip::cli

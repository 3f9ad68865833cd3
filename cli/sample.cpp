// SPDX-License-Identifier: Apache-2.0
// `spectralclip sample RUN`: text from a language model's checkpoint.
#include <fmt/format.h>

#include <cstdio>

#include "clipper/atomic_file.h"
#include "commands.h"
#include "config/source.h"
#include "record/checkpoint.h"
#include "require.h"
#include "tasks.h"

namespace spectralclip::cli {
namespace {

int sample(const std::string& directory, lab::SampleOptions options) {
  const lab::Resolved resolved = lab::resolve_text(read_text(directory + "/config.toml"), directory + "/config.toml");
  const lab::TaskInfo& task = find_task(resolved.config.task);
  SPECTRALCLIP_REQUIRE(task.sample != nullptr, directory, " is a run of ", task.name, ", which makes no text");
  const lab::CheckpointFile checkpoint(directory + "/checkpoint.bin");
  options.write = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  options.write(options.prompt);
  task.sample(resolved.config, checkpoint, options);
  options.write("\n");
  return kDone;
}

}  // namespace

void add_sample(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("sample", "text from the checkpoint of a language model's run");
  auto directory = std::make_shared<std::string>();
  auto options = std::make_shared<lab::SampleOptions>();
  command->add_option("RUN", *directory, "run directory")->required()->check(CLI::ExistingDirectory);
  command->add_option("--prompt", options->prompt, "what it goes on from (a new line)");
  command->add_option("--tokens", options->tokens, "how many (500)")->check(CLI::Range(0, 1000000));
  command->add_option("--temperature", options->temperature, "below 1: likelier tokens; 0: always the likeliest (1)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", options->top_k, "choose among so many likeliest (0: all)")
      ->check(CLI::Range(0, 1000000));
  command->add_option("--seed", options->seed, "another seed, another text (1)");
  command->callback([directory, options, &status] { status = sample(*directory, *options); });
}

}  // namespace spectralclip::cli

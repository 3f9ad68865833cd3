// SPDX-License-Identifier: Apache-2.0
// `spectralclip export-model RUN FILE`: the weights of a run as a model file that other programs read.
#include <fmt/format.h>

#include "clipper/atomic_file.h"
#include "commands.h"
#include "config/source.h"
#include "record/checkpoint.h"
#include "require.h"
#include "tasks.h"

namespace spectralclip::cli {
namespace {

int export_model(const std::string& directory, const std::string& path) {
  const lab::Resolved resolved = lab::resolve_text(read_text(directory + "/config.toml"), directory + "/config.toml");
  const lab::TaskInfo& task = find_task(resolved.config.task);
  SPECTRALCLIP_REQUIRE(task.write_model != nullptr, directory, " is a run of ", task.name,
                       ", whose network no other program reads");
  task.write_model(resolved.config, lab::CheckpointFile(directory + "/checkpoint.bin"), path);
  fmt::print("wrote {}\n", path);
  return kDone;
}

}  // namespace

void add_export_model(CLI::App& program, int& status) {
  auto* command =
      program.add_subcommand("export-model", "the weights of a GPT-2 run as model.safetensors or llm.c's model file");
  auto directory = std::make_shared<std::string>(), path = std::make_shared<std::string>();
  command->add_option("RUN", *directory, "run directory")->required()->check(CLI::ExistingDirectory);
  command->add_option("FILE", *path, "ends in .safetensors: Hugging Face's; else llm.c's")->required();
  command->callback([directory, path, &status] { status = export_model(*directory, *path); });
}

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// `spectralclip bench`: the benchmark of the core, as `make bench` runs it.
#include "clip.h"
#include "commands.h"

namespace spectralclip::cli {

void add_bench(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("bench", "norm clipping beside spectral clipping on GPT-2's matrices");
  command->prefix_command();  // everything behind it, --help included, is the benchmark's own
  command->set_help_flag();
  command->callback([command, &status] {
    std::vector<std::string> words = command->remaining();
    std::vector<char*> arguments = {const_cast<char*>("spectralclip bench")};
    for (std::string& word : words) arguments.push_back(word.data());
    status = bench::clip_benchmark(static_cast<int>(arguments.size()), arguments.data());
  });
}

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// `spectralclip data`: which data sets are found, where, and the exact command that gets a missing one.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "commands.h"
#include "data_sets.h"

namespace spectralclip::cli {

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> sets = {
      {"shakespeare",
       "tiny Shakespeare, 1.1 MB of text",
       {"shakespeare/input.txt"},
       "mkdir -p shakespeare && curl -fL -o shakespeare/input.txt "
       "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"},
      {"cifar10",
       "CIFAR-10, official binary batches, 170 MB",
       {"cifar10/data_batch_1.bin", "cifar-10-batches-bin/data_batch_1.bin"},
       "curl -fLO https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz && tar xzf cifar-10-binary.tar.gz"},
      {"wikitext2",
       "WikiText-2, raw text, 4.5 MB",
       {"wikitext2/train.txt", "wikitext2/valid.txt", "wikitext-2-raw/wiki.train.raw"},
       "curl -fLO https://wikitext.smerity.com/wikitext-2-raw-v1.zip && unzip wikitext-2-raw-v1.zip"}};
  return sets;
}

std::vector<std::string> data_folders() {
  std::vector<std::string> folders;
  if (const char* chosen = std::getenv("SPECTRALCLIP_DATA")) folders.emplace_back(chosen);
  folders.emplace_back("data");
  if (const char* home = std::getenv("HOME")) folders.emplace_back(std::string(home) + "/.cache/spectralclip");
  return folders;
}

std::string find_data(const DataSet& set) {
  for (const std::string& folder : data_folders())
    for (const std::string& file : set.files)
      if (std::filesystem::exists(folder + "/" + file)) return folder + "/" + file;
  return {};
}

namespace {

void print_data() {
  fmt::print("looked in:");
  for (const std::string& folder : data_folders()) fmt::print(" {}", folder);
  fmt::print("   (SPECTRALCLIP_DATA=FOLDER puts another one first)\n");
  for (const DataSet& set : data_sets()) {
    const std::string where = find_data(set);
    fmt::print("\n{}: {}\n", set.name, set.help);
    if (!where.empty())
      fmt::print("  found: {}\n", where);
    else
      fmt::print("  missing. To get it:\n  mkdir -p data && cd data && {}\n", set.command);
  }
  fmt::print("\ntrace-regression, mlp-heavy-tail and rates make their own data and need none of these.\n");
}

}  // namespace

void add_data(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("data", "which data sets are found, and how to get a missing one");
  command->callback([&status] {
    print_data();
    status = kDone;
  });
}

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// `spectralclip data`: which data sets are found, where, whether they are whole, and the commands that get a missing
// one.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "data/examine.h"
#include "data/locate.h"

namespace spectralclip::cli {
namespace {

using lab::data::DataSet;

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

void print_set(const DataSet& set) {
  fmt::print("\n{}: {}\n  home     {}\n", set.name, set.help, set.home);
  const std::vector<std::string> files = find_data(set);
  if (!files.empty()) {
    fmt::print("  found    {}\n", joined(files, "\n           "));
    return;
  }
  const std::vector<std::string> archives = find_archives(set);
  if (!archives.empty()) fmt::print("  packed   {}\n", joined(archives, "\n           "));
  fmt::print("  missing. To get it:\n    mkdir -p data && cd data && {}\n", set.get);
}

void print_list() {
  fmt::print("looked in: {}   (SPECTRALCLIP_DATA=FOLDER puts another one first)\n",
             joined(lab::data::data_folders(), ", "));
  for (const DataSet& set : lab::data::data_sets()) print_set(set);
  fmt::print("\ntrace-regression, mlp-heavy-tail and rates make their own data and need none of these.\n");
}

// Whether all is good.
bool check_file(const DataSet& set, const std::string& path) {
  const lab::data::Finding finding = examine(set, path);
  const char* const verdict = !finding.good ? "WRONG" : finding.known ? "known" : "whole";
  fmt::print("{}  {}\n       {}\n       {} bytes, SHA-256 {}\n", verdict, path, finding.text, finding.bytes,
             finding.sha256);
  return finding.good;
}

bool check_set(const DataSet& set, bool asked_for) {
  std::vector<std::string> files = find_data(set);
  for (std::string& archive : find_archives(set)) files.push_back(std::move(archive));
  bool good = true;
  for (const std::string& file : files) good = check_file(set, file) && good;
  if (files.empty()) fmt::print("-      {} is not here; `spectralclip data list` says how to get it\n", set.name);
  return good && !(files.empty() && asked_for);
}

bool check(const std::vector<std::string>& names) {
  bool good = true;
  if (names.empty()) {
    for (const DataSet& set : lab::data::data_sets()) good = check_set(set, false) && good;
  }
  for (const std::string& name : names) good = check_set(lab::data::data_set(name), true) && good;
  return good;
}

void add_listing(CLI::App& command, int& status) {
  auto* list =
      command.add_subcommand("list", "each set: where it was found, or the commands that get it (as without a word)");
  list->callback([&status] {
    print_list();
    status = kDone;
  });
}

void add_check(CLI::App& command, int& status) {
  auto* check_command = command.add_subcommand(
      "check", "read what was found and compare sizes and SHA-256 with the list; exit code 1 if anything is wrong");
  auto names = std::make_shared<std::vector<std::string>>();
  check_command->add_option("NAME", *names, "sets to check (all that are found)");
  check_command->callback([&status, names] { status = check(*names) ? kDone : 1; });
}

void add_where(CLI::App& command, int& status) {
  auto* where = command.add_subcommand("where", "print the files of one set, a line each, for scripts");
  auto name = std::make_shared<std::string>();
  where->add_option("NAME", *name, "the set")->required();
  where->callback([&status, name] {
    for (const std::string& file : lab::data::locate(*name)) fmt::print("{}\n", file);
    status = kDone;
  });
}

}  // namespace

void add_data(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("data", "which data sets are found, are they whole, how to get a missing one");
  command->require_subcommand(0, 1);
  std::string names;
  for (const DataSet& set : lab::data::data_sets()) names += fmt::format("  {:<12} {}\n", set.name, set.help);
  command->footer(
      "data sets:\n" + names +
      "\nNothing is fetched by itself: `spectralclip data list` prints the commands that do. Looked in are\n"
      "$SPECTRALCLIP_DATA, ./data, ../shared/data and ~/.cache/spectralclip, in this order.\n"
      "examples:\n"
      "  spectralclip data\n"
      "  spectralclip data check shakespeare\n"
      "  SPECTRALCLIP_DATA=/big/disk spectralclip data where fineweb");
  add_listing(*command, status);
  add_check(*command, status);
  add_where(*command, status);
  command->callback([&status, command] {
    if (!command->get_subcommands().empty()) return;
    print_list();
    status = kDone;
  });
}

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// `spectralclip completion SHELL`: a script that completes commands, options, presets and keys. The words come from the
// program itself, so a new option or preset needs no change here.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "config/keys.h"
#include "config/source.h"

namespace spectralclip::cli {
namespace {

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> keys_with_equals() {
  std::vector<std::string> keys;
  for (const lab::KeyInfo& info : lab::keys_of(lab::Config{})) keys.push_back(info.key + "=");
  return keys;
}

std::vector<std::string> preset_names(bool sweeps) {
  std::vector<std::string> names;
  for (const lab::Preset& preset : lab::presets())
    if (preset.is_sweep == sweeps) names.push_back(preset.name);
  return names;
}

std::string words_of(const CLI::App& command) {
  std::vector<std::string> words = option_names(command);
  if (command.get_name() == "run" || command.get_name() == "sweep") {
    const auto names = preset_names(command.get_name() == "sweep");
    words.insert(words.end(), names.begin(), names.end());
  }
  if (command.get_name() == "completion") words.insert(words.end(), {"bash", "zsh", "fish"});
  return joined(words);
}

void print_bash(const CLI::App& program) {
  std::vector<std::string> commands;
  std::string cases;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), words_of(*command));
  }
  fmt::print(R"(_spectralclip() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [[ "$before" == --set ]]; then
    COMPREPLY=($(compgen -W "{}" -- "$word"))
    type compopt >/dev/null 2>&1 && compopt -o nospace
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}    *) words="{} --help --version" ;;
  esac
  [[ $COMP_CWORD -eq 1 ]] && words="{} --help --version"
  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
}}
complete -o filenames -F _spectralclip spectralclip
)",
             joined(keys_with_equals()), cases, joined(commands), joined(commands));
}

void print_fish(const CLI::App& program) {
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    fmt::print("complete -c spectralclip -n __fish_use_subcommand -a {} -d '{}'\n", command->get_name(),
               command->get_description());
    fmt::print("complete -c spectralclip -n '__fish_seen_subcommand_from {}' -a '{}'\n", command->get_name(),
               words_of(*command));
  }
  fmt::print("complete -c spectralclip -l set -x -a '{}'\n", joined(keys_with_equals()));
}

}  // namespace

void add_completion(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("completion",
                                         "a completion script for a shell, e.g. "
                                         "`source <(spectralclip completion bash)`");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &program, &status] {
    if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
    if (*shell == "fish")
      print_fish(program);
    else
      print_bash(program);
    status = kDone;
  });
}

}  // namespace spectralclip::cli

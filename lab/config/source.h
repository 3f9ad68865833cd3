// SPDX-License-Identifier: Apache-2.0
// Where a configuration comes from: a preset that the program carries, or a TOML file. Both may start from another
// preset (`extends = "name"`) and say in a line what they are (`summary = "…"`).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace spectralclip::lab {

struct Preset {
  std::string name;
  std::string summary;
  std::string text;       // the TOML itself
  bool is_sweep = false;  // has a [sweep] table: for `spectralclip sweep`, not for `run`
};

struct Resolved {
  Config config;
  std::vector<std::string> keys;  // set by the file, what it extends, and --set: in that order
};

// Presets in order of name; the list is made once.
[[nodiscard]] const std::vector<Preset>& presets();
// Null when there is none of that name.
[[nodiscard]] const Preset* find_preset(std::string_view name);

// A preset's name, or a path (it ends in .toml or has a slash). Throws InvalidArgument: unknown preset with the nearest
// one, file and line of a syntax error, unknown or ill-typed keys.
[[nodiscard]] Resolved resolve(const std::string& preset_or_file, const std::vector<std::string>& assignments = {});
[[nodiscard]] Resolved resolve_text(std::string_view toml, const std::string& name);

}  // namespace spectralclip::lab

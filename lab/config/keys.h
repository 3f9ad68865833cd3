// SPDX-License-Identifier: Apache-2.0
// Keys by name: list them, set one from text, write them as TOML. Errors are InvalidArgument with the key, the value
// and what is allowed; an unknown key comes with the nearest known one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace spectralclip::lab {

enum class ValueType { text, integer, number, boolean, list };

struct KeyInfo {
  std::string key;  // "optimizer.lr"
  ValueType type = ValueType::text;
  std::string value;  // as it stands; numbers round-trip, lists are "0.05, 0.1"
  std::string allowed;
  std::string help;
};

// "optimizer" of "optimizer.lr"; "" for the keys of the run itself (task, name, seed, threads).
[[nodiscard]] std::string group_of(std::string_view key);

[[nodiscard]] std::vector<KeyInfo> keys_of(const Config& config);
// Only the groups that a task reads, and the keys of the run itself.
[[nodiscard]] std::vector<KeyInfo> keys_of(const Config& config, const std::vector<std::string>& groups);

void set_key(Config& config, std::string_view key, std::string_view value);
// "optimizer.lr=0.01", as --set takes it; returns the key.
std::string set_assignment(Config& config, std::string_view assignment);

// What single ranges cannot say (a first K above the last one, …).
void validate(const Config& config);

[[nodiscard]] std::string to_toml(const Config& config, const std::vector<std::string>& groups);

}  // namespace spectralclip::lab

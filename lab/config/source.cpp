// SPDX-License-Identifier: Apache-2.0
#include "config/source.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "clipper/atomic_file.h"
#include "config/keys.h"
#include "embedded/presets.h"
#include "require.h"
#include "spectralclip/settings.h"

namespace spectralclip::lab {
namespace {

constexpr int kDeepest = 8;  // of `extends`: more is a circle

toml::table parsed(std::string_view text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(detail::concat(name, ", line ", error.source().begin.line, ": ", error.description()));
  }
}

std::string text_of_number(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return {};
}

std::string list_text(const toml::array& array, const std::string& key) {
  std::vector<std::string> parts;
  for (const toml::node& node : array) {
    parts.push_back(text_of_number(node));
    SPECTRALCLIP_REQUIRE(!parts.back().empty(), key, ": expected a list of numbers");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

const char* type_name(ValueType type) {
  switch (type) {
    case ValueType::integer:
      return "an integer";
    case ValueType::number:
      return "a number";
    case ValueType::boolean:
      return "true or false";
    case ValueType::list:
      return "a list of numbers";
    case ValueType::text:
      break;
  }
  return "text";
}

// Text that set_key takes; a string where a number belongs is refused here, because text would hide it ("none" is how
// clip.rank says that it is unset).
std::string value_text(const toml::node& node, const std::string& key, ValueType type) {
  const auto wrong = [&] {
    std::ostringstream written;
    node.visit([&](const auto& value) { written << value; });
    const bool number = node.is_string() && (type == ValueType::integer || type == ValueType::number);
    throw InvalidArgument(
        detail::concat(key, " = ", written.str(), ": expected ", type_name(type), number ? ", without quotes" : ""));
  };
  if (const auto* text = node.as_string()) {
    if (type != ValueType::text && text->get() != "none") wrong();
    return text->get();
  }
  if (const auto* flag = node.as_boolean()) {
    if (type != ValueType::boolean) wrong();
    return flag->get() ? "true" : "false";
  }
  if (const auto* array = node.as_array()) {
    if (type != ValueType::list) wrong();
    return list_text(*array, key);
  }
  const std::string text = text_of_number(node);
  if (text.empty() || type == ValueType::boolean || (type == ValueType::text && key != "clip.rank")) wrong();
  return text;
}

void set_from(Resolved& resolved, const toml::table& table, const std::string& prefix) {
  const std::vector<KeyInfo> known = keys_of(resolved.config);
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (prefix.empty() && (key == "summary" || key == "extends")) continue;
    if (const auto* inner = node.as_table()) {
      set_from(resolved, *inner, key + ".");
      continue;
    }
    const auto info = std::find_if(known.begin(), known.end(), [&](const KeyInfo& k) { return k.key == key; });
    if (info == known.end()) set_key(resolved.config, key, "");  // throws, with the nearest known key
    set_key(resolved.config, key, value_text(node, key, info->type));
    resolved.keys.push_back(key);
  }
}

void apply_text(Resolved& resolved, std::string_view text, const std::string& name, int depth) {
  SPECTRALCLIP_REQUIRE(depth < kDeepest, name, ": `extends` goes in a circle");
  const toml::table table = parsed(text, name);
  if (table.contains("sweep")) throw InvalidArgument(name + " defines a sweep: use `spectralclip sweep " + name + "`");
  if (const auto base = table["extends"].value<std::string>()) {
    const Preset* preset = find_preset(*base);
    SPECTRALCLIP_REQUIRE(preset != nullptr, name, " extends \"", *base, "\", which is no preset");
    apply_text(resolved, preset->text, preset->name, depth + 1);
  }
  try {
    set_from(resolved, table, "");
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(name + ": " + error.what());
  }
}

bool looks_like_file(const std::string& name) { return name.ends_with(".toml") || name.find('/') != std::string::npos; }

[[noreturn]] void refuse_preset(const std::string& name) {
  std::vector<std::string> known;
  for (const Preset& preset : presets()) known.push_back(preset.name);
  const std::string near = nearest_name(name, known);
  throw InvalidArgument(detail::concat("no preset is called \"", name, "\"",
                                       near.empty() ? "" : "; did you mean \"" + near + "\"?",
                                       " (`spectralclip list` shows them; a file's name ends in .toml)"));
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> list;
    for (const embedded::EmbeddedFile& file : embedded::presets()) {
      const std::string name = std::filesystem::path(file.name).stem().string();
      const toml::table table = parsed(file.text, name);
      list.push_back({name, table["summary"].value_or(std::string()), std::string(file.text), table.contains("sweep")});
    }
    std::sort(list.begin(), list.end(), [](const Preset& a, const Preset& b) { return a.name < b.name; });
    return list;
  }();
  return all;
}

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return &preset;
  return nullptr;
}

Resolved resolve_text(std::string_view toml, const std::string& name) {
  Resolved resolved;
  resolved.config.name = std::filesystem::path(name).stem().string();
  apply_text(resolved, toml, name, 0);
  return resolved;
}

Resolved resolve(const std::string& preset_or_file, const std::vector<std::string>& assignments) {
  const Preset* preset = find_preset(preset_or_file);
  if (preset == nullptr && !looks_like_file(preset_or_file)) refuse_preset(preset_or_file);
  Resolved resolved = preset != nullptr ? resolve_text(preset->text, preset->name)
                                        : resolve_text(read_text(preset_or_file), preset_or_file);
  for (const std::string& assignment : assignments)
    resolved.keys.push_back(set_assignment(resolved.config, assignment));
  validate(resolved.config);
  return resolved;
}

}  // namespace spectralclip::lab

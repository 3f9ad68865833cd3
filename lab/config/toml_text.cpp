// SPDX-License-Identifier: Apache-2.0
// A configuration as TOML that reads back as the same one.
#include <fmt/format.h>

#include "config/keys.h"

namespace spectralclip::lab {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Digits alone are an integer to TOML, and 1e-4 needs no help.
std::string number(const std::string& text) {
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string value_text(const KeyInfo& info) {
  switch (info.type) {
    case ValueType::integer:
      return info.value == "none" ? quoted(info.value) : info.value;
    case ValueType::boolean:
      return info.value;
    case ValueType::number:
      return number(info.value);
    case ValueType::list:
      return "[" + info.value + "]";
    case ValueType::text:
      break;
  }
  const bool digits = !info.value.empty() && info.value.find_first_not_of("0123456789") == std::string::npos;
  return digits && info.key == "clip.rank" ? info.value : quoted(info.value);
}

}  // namespace

std::string to_toml(const Config& config, const std::vector<std::string>& groups) {
  std::string text, group;
  for (const KeyInfo& info : keys_of(config, groups)) {
    const std::string own = group_of(info.key);
    if (own != group) text += fmt::format("\n[{}]\n", group = own);
    text += fmt::format("{} = {}\n", own.empty() ? info.key : info.key.substr(own.size() + 1), value_text(info));
  }
  return text;
}

}  // namespace spectralclip::lab

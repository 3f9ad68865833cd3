// SPDX-License-Identifier: Apache-2.0
// Names of enumerations, for options that come from command lines and presets: one table serves both directions.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "require.h"

namespace spectralclip::torch {

template <class Enum>
struct EnumName {
  Enum value;
  const char* name;
};

template <class Enum, std::size_t N>
[[nodiscard]] const char* name_of(const std::array<EnumName<Enum>, N>& names, Enum value) noexcept {
  for (const EnumName<Enum>& entry : names) {
    if (entry.value == value) return entry.name;
  }
  return "unknown";
}

template <class Enum, std::size_t N>
[[nodiscard]] std::string listed(const std::array<EnumName<Enum>, N>& names) {
  std::string list;
  for (const EnumName<Enum>& entry : names) list += (list.empty() ? "" : ", ") + std::string(entry.name);
  return list;
}

template <class Enum, std::size_t N>
[[nodiscard]] Enum parse_name(const char* option, const std::array<EnumName<Enum>, N>& names, std::string_view name) {
  for (const EnumName<Enum>& entry : names) {
    if (name == entry.name) return entry.value;
  }
  throw InvalidArgument(detail::concat(option, " \"", name, "\" is none of ", listed(names)));
}

// A value that was cast to the enumeration from outside, out of a file or another language.
template <class Enum, std::size_t N>
void require_named(const char* option, const std::array<EnumName<Enum>, N>& names, Enum value) {
  for (const EnumName<Enum>& entry : names) {
    if (entry.value == value) return;
  }
  throw InvalidArgument(detail::concat(option, " = ", static_cast<int>(value), " is none of ", listed(names)));
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// SPECTRALCLIP_REQUIRE(condition, parts…): misuse at the public edge throws InvalidArgument with the values in the
// text.
#pragma once

#include <locale>
#include <sstream>
#include <string>

#include "spectralclip/error.h"

namespace spectralclip::detail {

template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // not the host's decimal comma
  (text << ... << parts);
  return std::move(text).str();
}

}  // namespace spectralclip::detail

#define SPECTRALCLIP_REQUIRE(condition, ...)                                                              \
  do {                                                                                                    \
    if (!(condition)) throw ::spectralclip::InvalidArgument(::spectralclip::detail::concat(__VA_ARGS__)); \
  } while (false)

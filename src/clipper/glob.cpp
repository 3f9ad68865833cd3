// SPDX-License-Identifier: Apache-2.0
// Glob patterns over parameter names: * and ? only, no classes, no escapes.
#include <cstddef>

#include "spectralclip/rules.h"

namespace spectralclip {
namespace {

// Where the character after text[i] starts; names are UTF-8, whose continuation bytes are 10xxxxxx.
std::size_t next_character(std::string_view text, std::size_t i) noexcept {
  for (++i; i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;) ++i;
  return i;
}

}  // namespace

// Only the latest * is ever retried: what an earlier one could take, the later one can take as well. So the cost is at
// most |pattern| |text| comparisons, and linear for patterns with one run of literals between stars and ends.
bool glob_match(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t after_star = std::string_view::npos;  // pattern position to resume from …
  std::size_t star_end = 0;                         // … with the star taking text up to here
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = t;
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      t = next_character(text, t);
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace spectralclip

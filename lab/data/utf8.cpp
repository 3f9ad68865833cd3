// SPDX-License-Identifier: Apache-2.0
#include "data/utf8.h"

#include <cstdint>

#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

// Bytes after the first of a character of more than one byte; 0: no such first byte.
std::size_t continuation_bytes(std::uint8_t first) {
  if (first >= 0xc2 && first <= 0xdf) return 1;
  if (first >= 0xe0 && first <= 0xef) return 2;
  if (first >= 0xf0 && first <= 0xf4) return 3;
  return 0;
}

bool is_scalar(char32_t symbol, std::size_t more) {
  constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};  // below: an overlong form
  return symbol >= kSmallest[more] && symbol <= 0x10ffff && (symbol < 0xd800 || symbol > 0xdfff);
}

}  // namespace

char32_t next_symbol(std::string_view utf8, std::size_t& at, const std::string& name) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(utf8[i]); };
  const std::uint8_t first = byte(at);
  if (first < 0x80) return static_cast<char32_t>(utf8[at++]);
  const std::size_t more = continuation_bytes(first);
  char32_t symbol = first & (0x3fU >> more);
  bool whole = more > 0 && utf8.size() - at > more;
  for (std::size_t i = 1; whole && i <= more; ++i) {
    whole = (byte(at + i) & 0xc0U) == 0x80;
    symbol = symbol << 6 | (byte(at + i) & 0x3fU);
  }
  if (!whole || !is_scalar(symbol, more))
    throw_data_error(name, ": byte ", at, " (value ", static_cast<int>(first), ") begins no UTF-8 character");
  at += more + 1;
  return symbol;
}

void append_utf8(std::string& text, char32_t symbol) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (symbol < 0x80) return put(symbol);
  if (symbol < 0x800) {
    put(0xc0 | symbol >> 6);
  } else if (symbol < 0x10000) {
    put(0xe0 | symbol >> 12);
    put(0x80 | (symbol >> 6 & 0x3f));
  } else {
    put(0xf0 | symbol >> 18);
    put(0x80 | (symbol >> 12 & 0x3f));
    put(0x80 | (symbol >> 6 & 0x3f));
  }
  put(0x80 | (symbol & 0x3f));
}

}  // namespace spectralclip::lab::data

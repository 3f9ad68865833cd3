// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259) and CSV (RFC 4180) text. Lines end with LF alone in both: every CSV reader takes it, and line tools
// do not like CR.
#include "telemetry/text.h"

#include <charconv>
#include <cmath>
#include <ostream>

#include "spectralclip/error.h"

namespace spectralclip::telemetry {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

template <class Number>
void append_digits(std::string& line, Number x) {
  char digits[32];  // the longest double is 24 characters, the longest int64 20
  line.append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

unsigned byte_at(std::string_view text, std::size_t i) noexcept { return static_cast<unsigned char>(text[i]); }

// Range of the second byte, after Table 3-7 of the Unicode standard: it excludes overlong forms, surrogates and
// everything beyond U+10FFFF.
bool second_byte_fits(unsigned first, unsigned second) noexcept {
  const unsigned low = first == 0xE0 ? 0xA0U : first == 0xF0 ? 0x90U : 0x80U;
  const unsigned high = first == 0xED ? 0x9FU : first == 0xF4 ? 0x8FU : 0xBFU;
  return second >= low && second <= high;
}

// Bytes of the UTF-8 character that `text` starts with; 0 when it starts with none.
std::size_t utf8_length(std::string_view text) noexcept {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length || !second_byte_fits(first, byte_at(text, 1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

// Calls append(character) for each UTF-8 character, with U+FFFD in place of each stray byte.
template <class Append>
void for_each_character(std::string_view text, Append append) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    append(length == 0 ? kReplacement : text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

void append_escaped(std::string& line, std::string_view character) {
  const char c = character.front();
  if (c == '"' || c == '\\') {
    line.append({'\\', c});
  } else if (c == '\n') {
    line.append("\\n");
  } else if (c == '\t') {
    line.append("\\t");
  } else if (c == '\r') {
    line.append("\\r");
  } else if (static_cast<unsigned char>(c) < 0x20) {
    constexpr std::string_view kHex = "0123456789abcdef";
    line.append("\\u00").append({kHex[static_cast<unsigned char>(c) >> 4U], kHex[static_cast<unsigned char>(c) & 15U]});
  } else {
    line.append(character);
  }
}

void append_json_string(std::string& line, std::string_view text) {
  line += '"';
  for_each_character(text, [&](std::string_view character) { append_escaped(line, character); });
  line += '"';
}

void append_csv_string(std::string& line, std::string_view text) {
  const bool quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  if (quoted) line += '"';
  for_each_character(text, [&](std::string_view character) { line.append(character == "\"" ? "\"\"" : character); });
  if (quoted) line += '"';
}

// What JSON and CSV share; false for a double without digits.
bool append_scalar(std::string& line, const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    line.append(*flag ? "true" : "false");
  } else if (const auto* count = std::get_if<std::int64_t>(&value)) {
    append_digits(line, *count);
  } else {
    const double x = std::get<double>(value);
    if (!std::isfinite(x)) return false;
    append_digits(line, x);
  }
  return true;
}

}  // namespace

void append_json(std::string& line, const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    append_json_string(line, *text);
  } else if (!append_scalar(line, value)) {
    line.append("null");
  }
}

void append_csv(std::string& line, const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    append_csv_string(line, *text);
  } else {
    append_scalar(line, value);
  }
}

void write_text(std::ostream& out, std::string_view text) {
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) throw Error("telemetry: the output stream failed; the latest step is missing or incomplete");
}

}  // namespace spectralclip::telemetry

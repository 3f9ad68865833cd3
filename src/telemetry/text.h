// SPDX-License-Identifier: Apache-2.0
// Values as JSON and CSV text, appended to a string: independent of any locale and of the stream's flags.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>

namespace spectralclip::telemetry {

using Value = std::variant<double, std::int64_t, bool, std::string_view>;

// Doubles in the shortest form that reads back bit-equal; NaN and infinities as null. Strings escaped; bytes that are
// not UTF-8 become U+FFFD, one for each byte.
void append_json(std::string& line, const Value& value);

// The same numbers, non-finite ones as an empty field; strings quoted where RFC 4180 asks for it.
void append_csv(std::string& line, const Value& value);

// Writes and flushes, so that a full disk shows in the step that met it. Throws Error when the stream is bad
// afterwards.
void write_text(std::ostream& out, std::string_view text);

}  // namespace spectralclip::telemetry

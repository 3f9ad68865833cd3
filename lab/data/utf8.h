// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text (RFC 3629), one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spectralclip::lab::data {

// The character that begins at byte `at`, which moves behind it. Throws DataError naming `name` and the byte for
// whatever is no UTF-8: stray or missing continuation bytes, overlong forms, surrogates, values above 0x10ffff.
[[nodiscard]] char32_t next_symbol(std::string_view utf8, std::size_t& at, const std::string& name);
void append_utf8(std::string& text, char32_t symbol);

}  // namespace spectralclip::lab::data

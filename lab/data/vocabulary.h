// SPDX-License-Identifier: Apache-2.0
// Characters as tokens, as nanoGPT's character data sets have them: the symbols (Unicode code points) of a text,
// sorted; a token is the position of its symbol.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spectralclip::lab::data {

class Vocabulary {
 public:
  // Any order, repeats allowed. Throws DataError when there is no symbol or there are more than 65,536.
  explicit Vocabulary(std::vector<char32_t> symbols);

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(symbols_.size()); }
  [[nodiscard]] const std::vector<char32_t>& symbols() const noexcept { return symbols_; }
  // -1 for a symbol that is not in it.
  [[nodiscard]] std::int64_t token(char32_t symbol) const noexcept;

  // Throws DataError naming the first symbol that is not in the vocabulary, or the byte that is no UTF-8.
  [[nodiscard]] std::vector<std::uint16_t> encode(std::string_view utf8) const;
  // Throws InvalidArgument on a token outside [0, size).
  [[nodiscard]] std::string decode(std::span<const std::uint16_t> tokens) const;
  [[nodiscard]] std::string decode(std::span<const std::int64_t> tokens) const;

 private:
  std::vector<char32_t> symbols_;  // sorted, each once
};

}  // namespace spectralclip::lab::data

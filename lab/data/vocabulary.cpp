// SPDX-License-Identifier: Apache-2.0
#include "data/vocabulary.h"

#include <algorithm>

#include "data/data_error.h"
#include "data/utf8.h"

namespace spectralclip::lab::data {
namespace {

constexpr std::size_t kMostSymbols = 65536;  // a token has 16 bits

template <class Token>
std::string decoded(const std::vector<char32_t>& symbols, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) {
    const auto wide = static_cast<std::int64_t>(token);
    SPECTRALCLIP_REQUIRE(wide >= 0 && wide < static_cast<std::int64_t>(symbols.size()), "token ", wide,
                         " is outside a vocabulary of ", symbols.size());
    append_utf8(text, symbols[static_cast<std::size_t>(wide)]);
  }
  return text;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<char32_t> symbols) : symbols_(std::move(symbols)) {
  std::ranges::sort(symbols_);
  symbols_.erase(std::unique(symbols_.begin(), symbols_.end()), symbols_.end());
  if (symbols_.empty()) throw_data_error("a vocabulary needs at least one symbol");
  if (symbols_.size() > kMostSymbols)
    throw_data_error(symbols_.size(), " different characters; at most ", kMostSymbols, " fit a 16-bit token");
}

std::int64_t Vocabulary::token(char32_t symbol) const noexcept {
  const auto found = std::ranges::lower_bound(symbols_, symbol);
  return found == symbols_.end() || *found != symbol ? -1 : found - symbols_.begin();
}

std::vector<std::uint16_t> Vocabulary::encode(std::string_view utf8) const {
  std::vector<std::uint16_t> tokens;
  for (std::size_t at = 0; at < utf8.size();) {
    const std::size_t begin = at;
    const char32_t symbol = next_symbol(utf8, at, "the text");
    const std::int64_t token = this->token(symbol);
    if (token < 0)
      throw_data_error("the character ", utf8.substr(begin, at - begin), " (byte ", begin,
                       ") is not among the vocabulary's ", size(), " symbols");
    tokens.push_back(static_cast<std::uint16_t>(token));
  }
  return tokens;
}

std::string Vocabulary::decode(std::span<const std::uint16_t> tokens) const { return decoded(symbols_, tokens); }
std::string Vocabulary::decode(std::span<const std::int64_t> tokens) const { return decoded(symbols_, tokens); }

}  // namespace spectralclip::lab::data

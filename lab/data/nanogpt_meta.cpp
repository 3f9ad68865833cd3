// SPDX-License-Identifier: Apache-2.0
#include "data/nanogpt_meta.h"

#include "data/data_error.h"
#include "data/mapped_file.h"
#include "data/pickle.h"
#include "data/utf8.h"

namespace spectralclip::lab::data {
namespace {

using Kind = PickleValue::Kind;

char32_t one_symbol(const PickleValue& value, std::int64_t token, const std::string& name) {
  std::size_t at = 0;
  char32_t symbol = 0;
  if (value.kind == Kind::text && !value.text.empty()) symbol = next_symbol(value.text, at, name);
  if (at == 0 || at != value.text.size())
    throw_data_error(name, ": token ", token, " does not stand for one character");
  return symbol;
}

}  // namespace

Vocabulary parse_nanogpt_meta(std::span<const std::byte> bytes, const std::string& name) {
  const Pickle pickle = load_pickle(bytes, name);
  const PickleValue* const size = pickle.find(pickle.value, "vocab_size");
  const PickleValue* const itos = pickle.find(pickle.value, "itos");
  if (size == nullptr || size->kind != Kind::integer || itos == nullptr || itos->kind != Kind::dictionary)
    throw_data_error(name, " has no vocab_size or no itos; nanoGPT's meta.pkl of a character data set was expected");
  const Pickle::Dictionary& items = pickle.dictionaries[static_cast<std::size_t>(itos->number)];
  if (size->number != static_cast<std::int64_t>(items.size()))
    throw_data_error(name, ": vocab_size is ", size->number, ", but itos has ", items.size(), " entries");
  std::vector<char32_t> symbols;
  for (const auto& [token, text] : items) {
    const auto expected = static_cast<std::int64_t>(symbols.size());
    if (token.kind != Kind::integer || token.number != expected)
      throw_data_error(name, ": entry ", expected, " of itos has another key");
    const char32_t symbol = one_symbol(text, expected, name);
    if (!symbols.empty() && symbol <= symbols.back())
      throw_data_error(name, ": token ", expected, " breaks the sorted order of the symbols");
    symbols.push_back(symbol);
  }
  return Vocabulary(std::move(symbols));
}

Vocabulary read_nanogpt_meta(const std::string& path) {
  const MappedFile file(path);
  return parse_nanogpt_meta(file.bytes(), path);
}

}  // namespace spectralclip::lab::data

// SPDX-License-Identifier: Apache-2.0
#include "data/token_data.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "data/data_error.h"
#include "data/locate.h"
#include "data/mapped_file.h"
#include "data/nanogpt_meta.h"
#include "data/token_shards.h"
#include "data/utf8.h"

namespace spectralclip::lab::data {
namespace {

// Python's int(0.9 * n), in double as there.
std::int64_t training_share(std::int64_t n) { return static_cast<std::int64_t>(0.9 * static_cast<double>(n)); }

void split(TokenData& data, const Tokens& all, const std::string& path, const char* what) {
  const std::int64_t train = training_share(all.size());
  if (train < 2 || all.size() - train < 2)
    throw_data_error(path, " has ", all.size(), " ", what, "; at least 20 were expected, for a tenth to validate on");
  data.train = all.slice(0, train);
  data.validation = all.slice(train, all.size() - train);
}

std::string_view as_text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// One bit a code point: 136 KiB, whatever the text.
std::vector<char32_t> symbols_of(std::string_view text, const std::string& path) {
  std::vector<bool> seen(0x110000);
  for (std::size_t at = 0; at < text.size();) seen[next_symbol(text, at, path)] = true;
  std::vector<char32_t> symbols;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) symbols.push_back(static_cast<char32_t>(i));
  }
  return symbols;
}

Tokens open_bare(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  if (file->size() == 0) throw_data_error(path, " is empty");
  if (file->size() % 2 != 0) throw_data_error(path, ": ", file->size(), " bytes are no whole number of 16-bit tokens");
  const auto* first = reinterpret_cast<const std::uint16_t*>(file->bytes().data());  // a mapping is aligned
  return {{{first, file->bytes().size() / 2}}, file};
}

void check_all(const Tokens& tokens, std::int64_t vocabulary_size, const std::string& path) {
  for (std::int64_t i = 0; i < tokens.shards(); ++i) require_below(tokens.shard(i), vocabulary_size, path);
}

}  // namespace

TokenData open_text(const std::string& path) {
  const MappedFile file(path);
  if (file.size() == 0) throw_data_error(path, " is empty; a text was expected");
  const std::string_view text = as_text(file);
  TokenData data;
  data.characters.emplace(symbols_of(text, path));
  data.vocabulary_size = data.characters->size();
  split(data, Tokens(data.characters->encode(text)), path, "characters");
  data.source = detail::concat("characters of ", path, ", ", data.vocabulary_size, " symbols");
  return data;
}

TokenData open_nanogpt(const std::string& folder, std::int64_t vocabulary_size) {
  SPECTRALCLIP_REQUIRE(vocabulary_size >= 0 && vocabulary_size <= 65536, "a vocabulary of ", vocabulary_size,
                       "; 1 to 65536, or 0 for what the data say, were expected");
  const std::string train = folder + "/train.bin", validation = folder + "/val.bin", meta = folder + "/meta.pkl";
  TokenData data;
  data.train = open_bare(train);
  data.validation = open_bare(validation);
  if (std::filesystem::exists(meta)) data.characters = read_nanogpt_meta(meta);
  if (data.characters) vocabulary_size = data.characters->size();
  if (vocabulary_size == 0) vocabulary_size = std::max(data.train.largest(), data.validation.largest()) + 1;
  data.vocabulary_size = vocabulary_size;
  check_all(data.train, vocabulary_size, train);
  check_all(data.validation, vocabulary_size, validation);
  data.source = detail::concat("nanoGPT's ", train, " and val.bin, ", vocabulary_size, " tokens in the vocabulary");
  return data;
}

TokenData open_shards(const std::string& train, const std::string& validation, std::int64_t vocabulary_size) {
  TokenData data;
  const Tokens all = open_token_shards(train, vocabulary_size);
  if (validation.empty()) {
    split(data, all, train, "tokens");
  } else {
    data.train = all;
    data.validation = open_token_shards(validation, vocabulary_size);
  }
  data.vocabulary_size = vocabulary_size;
  data.source = detail::concat("token shards ", train, validation.empty() ? "" : " and ", validation, ", ", all.size(),
                               " tokens to train on");
  return data;
}

TokenData open_tokens(const std::string& path, std::int64_t vocabulary_size) {
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(path + "/train.bin")) return open_nanogpt(path, vocabulary_size);
    if (std::filesystem::exists(path + "/input.txt")) return open_text(path + "/input.txt");
    throw_data_error(path, " has neither train.bin nor input.txt; a folder with one of them was expected");
  }
  const std::vector<std::string> files = glob_files(path);
  if (files.empty()) throw_data_error("there is no file ", path);
  std::array<char, 4> begin{};
  std::ifstream(files.front(), std::ios::binary).read(begin.data(), begin.size());
  std::int32_t magic = 0;
  std::memcpy(&magic, begin.data(), sizeof magic);
  if (files.front().ends_with(".bin") || magic == 20240520)
    return open_shards(path, "", vocabulary_size == 0 ? 50257 : vocabulary_size);
  if (files.size() > 1) throw_data_error(path, " stands for ", files.size(), " files; one text was expected");
  return open_text(files.front());
}

}  // namespace spectralclip::lab::data

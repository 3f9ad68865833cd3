// SPDX-License-Identifier: Apache-2.0
// What a language model trains on, from the formats that people have: plain text as characters, nanoGPT's bare
// train.bin / val.bin, llm.c's and modded-nanoGPT's shards. Every token is checked against the vocabulary once, when
// the data are opened (about 1 ms a million).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/tokens.h"
#include "data/vocabulary.h"

namespace spectralclip::lab::data {

struct TokenData {
  Tokens train, validation;
  std::int64_t vocabulary_size = 0;      // every token is below it
  std::optional<Vocabulary> characters;  // when tokens are characters: decodes samples
  std::string source;                    // for people: "characters of x/input.txt, 65 symbols"
};

// Characters of a UTF-8 text, 90 % to train and the rest to validate, cut at int(0.9 n) as nanoGPT does. An empty text,
// or one whose halves are empty, is refused.
[[nodiscard]] TokenData open_text(const std::string& path);

// A folder with nanoGPT's train.bin and val.bin: bare little-endian uint16. With meta.pkl beside them, of a character
// data set, its symbols are used; without, `vocabulary_size` says how many there are (0: the largest token + 1).
[[nodiscard]] TokenData open_nanogpt(const std::string& folder, std::int64_t vocabulary_size = 0);

// Shards by glob (data/token_shards.h). `validation` may be empty: then the last 10 % of the tokens validate.
[[nodiscard]] TokenData open_shards(const std::string& train, const std::string& validation,
                                    std::int64_t vocabulary_size = 50257);

// By what stands at the path: a folder with train.bin, a shard or a glob of them, else a text.
[[nodiscard]] TokenData open_tokens(const std::string& path, std::int64_t vocabulary_size = 0);

}  // namespace spectralclip::lab::data

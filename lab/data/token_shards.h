// SPDX-License-Identifier: Apache-2.0
// Token shards of llm.c and modded-nanoGPT: 256 little-endian int32 (20240520, version 1, number of tokens, zeros),
// then that many uint16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/tokens.h"

namespace spectralclip::lab::data {

// The tokens of one shard; `name` is for messages. Refused: another magic or version, a file of another length than its
// header says.
[[nodiscard]] std::span<const std::uint16_t> parse_shard(std::span<const std::byte> bytes, const std::string& name);

// All shards of a glob, sorted by name. Throws DataError when there is none or a token is not below `vocabulary_size`.
[[nodiscard]] Tokens open_token_shards(const std::string& pattern, std::int64_t vocabulary_size);

// Throws DataError naming the first token that is not below the size. Reads all once.
void require_below(std::span<const std::uint16_t> tokens, std::int64_t vocabulary_size, const std::string& name);

// Atomic. 1 to 2^31 - 1 tokens.
void write_token_shard(const std::string& path, std::span<const std::uint16_t> tokens);

}  // namespace spectralclip::lab::data

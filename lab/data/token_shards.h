// SPDX-License-Identifier: Apache-2.0
// Token shards of llm.c and modded-nanoGPT: 256 little-endian int32 (20240520, version 1, number of tokens, zeros),
// then that many uint16. And llm.c's order of samples.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "data/tokens.h"

namespace spectralclip::lab::data {

// The tokens of one shard; `name` is for messages. Refused: another magic or version, a file of another length than its
// header says.
[[nodiscard]] std::span<const std::uint16_t> parse_shard(std::span<const std::byte> bytes, const std::string& name);
// All shards of a glob, sorted by name. Throws DataError when there is none or a token is not below `vocabulary_size`.
[[nodiscard]] Tokens open_token_shards(const std::string& pattern, std::int64_t vocabulary_size);
// Atomic; at most 2^31 - 1 tokens.
void write_token_shard(const std::string& path, std::span<const std::uint16_t> tokens);

// llm.c's loader as a function of the number of the sample: sample i of rank r reads B T + 1 tokens of a shard from
// token i P B T + r B T on; a shard of n tokens holds (n - 1) / (P B T) samples; shards follow each other, and the first
// follows the last. Shuffled: mt19937 seeded with 42 + r permutes the shards of each epoch and the samples of each shard
// as it is entered.
struct ShardPlace {
  std::int64_t shard;
  std::int64_t token;  // in that shard
};

class ShardOrder {
 public:
  // Throws DataError when a shard holds no sample.
  ShardOrder(const Tokens& tokens, std::int64_t batch, std::int64_t length, bool shuffle = false,
             std::int64_t processes = 1, std::int64_t rank = 0);

  // Of sample 0, 1, … of this rank. Forward in constant time; backward, a shuffled order is drawn again from its start.
  [[nodiscard]] ShardPlace place(std::int64_t sample);
  [[nodiscard]] std::int64_t samples_of_epoch() const noexcept { return samples_of_epoch_; }
  // batch x (length + 1)… the loader's B T + 1 tokens as inputs and targets of batch x length each.
  void read(std::int64_t sample, std::span<std::int64_t> inputs, std::span<std::int64_t> targets);

 private:
  void start();
  void enter_next_shard();
  void permute(std::vector<std::int32_t>& order);

  Tokens tokens_;
  std::int64_t batch_, length_, processes_, rank_;
  bool shuffle_;
  std::vector<std::int64_t> samples_;  // of each shard
  std::int64_t samples_of_epoch_ = 0;
  // The shard that is being read: which it is in the order, its first sample, its permutation.
  std::mt19937 engine_;
  std::vector<std::int32_t> shard_order_, sample_order_;
  std::int64_t position_ = 0, first_sample_ = 0;
};

}  // namespace spectralclip::lab::data

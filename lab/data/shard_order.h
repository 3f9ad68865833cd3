// SPDX-License-Identifier: Apache-2.0
// llm.c's order of samples as a function of the sample's number, so that a resumed run needs its step alone.
//
// Sample i of rank r reads B T + 1 tokens of a shard from token i P B T + r B T on (P ranks); a shard of n tokens holds
// (n - 1) / (P B T) samples; shards follow each other, and the first follows the last. Shuffled: mt19937, seeded with
// 42 + r, permutes the shards at the start of each epoch, and the samples of each shard as it is entered.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "data/tokens.h"

namespace spectralclip::lab::data {

struct ShardPlace {
  std::int64_t shard;
  std::int64_t token;  // in that shard
};

struct ShardOrderOptions {
  std::int64_t batch = 1;   // B
  std::int64_t length = 1;  // T
  std::int64_t processes = 1;
  std::int64_t rank = 0;
  bool shuffle = false;
};

class ShardOrder {
 public:
  // Throws DataError when a shard holds no sample.
  ShardOrder(Tokens tokens, const ShardOrderOptions& options);

  // Of sample 0, 1, … of this rank. Cheap going forward; going back, a shuffled order is drawn again from its start.
  [[nodiscard]] ShardPlace place(std::int64_t sample);
  // Inputs and the tokens after them, batch x length of each.
  void read(std::int64_t sample, std::span<std::int64_t> inputs, std::span<std::int64_t> targets);
  [[nodiscard]] std::int64_t samples_of_epoch() const noexcept { return samples_of_epoch_; }

 private:
  void start();
  void enter();  // the shard at position_: its permutation
  void leave();
  void permute(std::vector<std::int32_t>& order);
  [[nodiscard]] std::size_t current_shard() const { return static_cast<std::size_t>(shard_order_[position_]); }

  Tokens tokens_;
  ShardOrderOptions options_;
  std::int64_t stride_ = 1;            // tokens of one sample of all ranks
  std::vector<std::int64_t> samples_;  // of each shard
  std::int64_t samples_of_epoch_ = 0;
  std::mt19937 engine_;
  std::vector<std::int32_t> shard_order_, sample_order_;
  std::size_t position_ = 0;       // in shard_order_
  std::int64_t first_sample_ = 0;  // of the shard there
};

}  // namespace spectralclip::lab::data

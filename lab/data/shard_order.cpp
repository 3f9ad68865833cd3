// SPDX-License-Identifier: Apache-2.0
#include "data/shard_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "data/data_error.h"

namespace spectralclip::lab::data {

ShardOrder::ShardOrder(Tokens tokens, const ShardOrderOptions& options)
    : tokens_(std::move(tokens)), options_(options) {
  const auto [batch, length, processes, rank, shuffle] = options;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  SPECTRALCLIP_REQUIRE(batch >= 1 && batch <= kMost && length >= 1 && length <= kMost && processes >= 1 &&
                           processes <= kMost && rank >= 0 && rank < processes,
                       "batch ", batch, ", length ", length, ", rank ", rank, " of ", processes, " processes");
  SPECTRALCLIP_REQUIRE(batch * length <= kMost, "a batch of ", batch, " x ", length, " tokens");
  stride_ = processes * batch * length;
  for (std::int64_t i = 0; i < tokens_.shards(); ++i) {
    const auto size = static_cast<std::int64_t>(tokens_.shard(i).size());
    samples_.push_back((size - 1) / stride_);
    samples_of_epoch_ += samples_.back();
    if (samples_.back() < 1)
      throw_data_error("shard ", i, " has ", size, " tokens; a step of ", processes, " x ", batch, " x ", length,
                       " needs ", stride_ + 1);
  }
  if (samples_.empty()) throw_data_error("there are no tokens to draw samples from");
  start();
}

void ShardOrder::start() {
  engine_.seed(static_cast<std::uint32_t>(42 + options_.rank));
  shard_order_.resize(samples_.size());
  std::iota(shard_order_.begin(), shard_order_.end(), 0);
  position_ = first_sample_ = 0;
  enter();
}

// The generator is drawn from as llm.c does: backwards, modulo.
void ShardOrder::permute(std::vector<std::int32_t>& order) {
  for (std::size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<std::uint32_t>(engine_()) % static_cast<std::uint32_t>(i + 1)]);
}

void ShardOrder::enter() {
  if (!options_.shuffle) return;
  if (position_ == 0) permute(shard_order_);
  sample_order_.resize(static_cast<std::size_t>(samples_[current_shard()]));
  std::iota(sample_order_.begin(), sample_order_.end(), 0);
  permute(sample_order_);
}

void ShardOrder::leave() {
  first_sample_ += samples_[current_shard()];
  position_ = (position_ + 1) % samples_.size();
}

ShardPlace ShardOrder::place(std::int64_t sample) {
  SPECTRALCLIP_REQUIRE(sample >= 0, "sample ", sample, ": 0 is the first");
  if (!options_.shuffle) {  // no state: whole epochs are skipped
    first_sample_ = sample - sample % samples_of_epoch_;
    position_ = 0;
  } else if (sample < first_sample_) {
    start();
  }
  while (sample - first_sample_ >= samples_[current_shard()]) {
    leave();
    enter();
  }
  std::int64_t inside = sample - first_sample_;
  if (options_.shuffle) inside = sample_order_[static_cast<std::size_t>(inside)];
  const auto shard = static_cast<std::int64_t>(current_shard());
  return {shard, inside * stride_ + options_.rank * options_.batch * options_.length};
}

void ShardOrder::read(std::int64_t sample, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) {
  const auto count = static_cast<std::size_t>(options_.batch * options_.length);
  SPECTRALCLIP_REQUIRE(inputs.size() == count && targets.size() == count, "room for ", inputs.size(), " inputs and ",
                       targets.size(), " targets; ", count, " of each were expected");
  const ShardPlace from = place(sample);
  const auto tokens = tokens_.shard(from.shard).subspan(static_cast<std::size_t>(from.token), count + 1);
  std::ranges::copy(tokens.first(count), inputs.begin());
  std::ranges::copy(tokens.last(count), targets.begin());
}

}  // namespace spectralclip::lab::data

// SPDX-License-Identifier: Apache-2.0
// The order of samples against llm.c's own loader (llmc/dataloader.h, compiled and run on three shards of 50, 81 and 33
// tokens, token k of shard s being 1000 s + k; B = 2, T = 4, two ranks): the first input of each of 24 steps.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "data/shard_order.h"
#include "data_scratch.h"

namespace spectralclip::lab::data {
namespace {

constexpr int kSteps = 24;
using Order = std::array<std::int64_t, kSteps>;

struct Recorded {
  bool shuffle;
  std::int64_t rank;
  Order first_inputs;
};
constexpr Recorded kRecorded[] = {{false, 0, {0,  16,   32,   1000, 1016, 1032, 1048, 1064, 2000, 2016, 0,  16,
                                              32, 1000, 1016, 1032, 1048, 1064, 2000, 2016, 0,    16,   32, 1000}},
                                  {false, 1, {8,  24,   40,   1008, 1024, 1040, 1056, 1072, 2008, 2024, 8,  24,
                                              40, 1008, 1024, 1040, 1056, 1072, 2008, 2024, 8,    24,   40, 1008}},
                                  {true, 0, {2016, 2000, 1016, 1000, 1048, 1032, 1064, 16, 0,    32,   1048, 1016,
                                             1000, 1032, 1064, 2016, 2000, 0,    16,   32, 2000, 2016, 0,    16}},
                                  {true, 1, {2008, 2024, 8,    40,   24,   1040, 1024, 1056, 1072, 1008, 2024, 2008,
                                             1056, 1008, 1024, 1040, 1072, 8,    24,   40,   40,   24,   8,    1072}}};

Tokens three_shards() {
  const auto owner = std::make_shared<std::vector<std::vector<std::uint16_t>>>();
  std::uint16_t first = 0;
  for (const std::size_t size : {50, 81, 33}) {
    owner->emplace_back(size);
    std::iota(owner->back().begin(), owner->back().end(), first);
    first = static_cast<std::uint16_t>(first + 1000);
  }
  std::vector<std::span<const std::uint16_t>> shards(owner->begin(), owner->end());
  return {std::move(shards), owner};
}

ShardOrder order_of(const Recorded& recorded) {
  return {three_shards(),
          {.batch = 2, .length = 4, .processes = 2, .rank = recorded.rank, .shuffle = recorded.shuffle}};
}

std::int64_t first_input(ShardOrder& order, std::int64_t sample) {
  std::vector<std::int64_t> inputs(8), targets(8);
  order.read(sample, inputs, targets);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(inputs[i], inputs[0] + static_cast<std::int64_t>(i));
    EXPECT_EQ(targets[i], inputs[i] + 1) << "the token after it";
  }
  return inputs[0];
}

TEST(ShardOrder, IsLlmcs) {
  for (const Recorded& recorded : kRecorded) {
    ShardOrder order = order_of(recorded);
    EXPECT_EQ(order.samples_of_epoch(), 10);
    for (int i = 0; i < kSteps; ++i)
      EXPECT_EQ(first_input(order, i), recorded.first_inputs[static_cast<std::size_t>(i)])
          << "step " << i << " of rank " << recorded.rank << (recorded.shuffle ? ", shuffled" : "");
  }
}

// A resumed run asks for its step at once, a curious one goes back and forth.
TEST(ShardOrder, DependsOnTheNumberOfTheSampleAlone) {
  for (const Recorded& recorded : kRecorded) {
    for (int i = 0; i < kSteps; ++i) {
      ShardOrder resumed = order_of(recorded);
      EXPECT_EQ(first_input(resumed, i), recorded.first_inputs[static_cast<std::size_t>(i)]);
    }
    ShardOrder order = order_of(recorded);
    for (int i = 0; i < 200; ++i) {
      const int step = i * 7 % kSteps;
      EXPECT_EQ(first_input(order, step), recorded.first_inputs[static_cast<std::size_t>(step)]);
    }
  }
}

TEST(ShardOrder, FarStepsOfAPlainOrderNeedNoReplay) {
  ShardOrder order = order_of(kRecorded[0]);
  EXPECT_EQ(first_input(order, 1'000'000'000'000'000LL), 0);
  EXPECT_EQ(first_input(order, 1'000'000'000'000'003LL), 1000);
}

TEST(ShardOrder, RefusesShardsThatHoldNoSample) {
  EXPECT_NAMES(data_error([] { ShardOrder(three_shards(), {.batch = 2, .length = 20}); }), "shard 2", "33 tokens",
               "41");
  EXPECT_NAMES(data_error([] { ShardOrder(Tokens(), {}); }), "no tokens");
  EXPECT_THROW(ShardOrder(three_shards(), {.rank = 1}), InvalidArgument);
  EXPECT_THROW(ShardOrder(three_shards(), {.batch = 1 << 20, .length = 1 << 20}), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::lab::data

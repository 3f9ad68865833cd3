// SPDX-License-Identifier: Apache-2.0
// What memory gives: a plain read and a plain copy of data far larger than the caches, best of a few tries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "layer_set.h"
#include "timing.h"

namespace spectralclip::bench {

struct Bandwidth {
  double read_gbs = 0;
  double copy_gbs = 0;  // bytes read plus bytes written
};

// Sum of 64-bit words in four chains: nothing but loads that the compiler may not drop.
inline std::uint64_t read_words(const float* data, std::int64_t entries) {
  std::uint64_t sum[4] = {};
  const char* bytes = reinterpret_cast<const char*>(data);
  for (std::int64_t i = 0; i + 8 <= entries; i += 8) {
    std::uint64_t words[4];
    std::memcpy(words, bytes + i * 4, sizeof words);
    for (int w = 0; w < 4; ++w) sum[w] += words[w];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

inline Bandwidth measure_bandwidth(const LayerSet& set, Executor& executor) {
  constexpr int kTries = 5;
  const auto count = static_cast<std::int64_t>(set.layers.size());
  std::vector<std::uint64_t> sums(set.layers.size());
  auto read = [&](std::int64_t i) {
    const std::size_t at = set.largest_first[static_cast<std::size_t>(i)];
    sums[at] = read_words(set.layers[at].master[0].data(), set.layers[at].master[0].entries());
  };
  auto copy = [&](std::int64_t i) {
    const Layer& layer = set.layers[set.largest_first[static_cast<std::size_t>(i)]];
    std::memcpy(layer.work[0].data(), layer.master[0].data(), layer.work[0].bytes());
  };
  Bandwidth result;
  for (int i = 0; i < kTries; ++i) {
    const double read_ms = milliseconds([&] { executor.run(count, read); });
    const double copy_ms = milliseconds([&] { executor.run(count, copy); });
    result.read_gbs = std::max(result.read_gbs, set.bytes() / read_ms * 1e-6);
    result.copy_gbs = std::max(result.copy_gbs, 2 * set.bytes() / copy_ms * 1e-6);
  }
  volatile std::uint64_t sink = 0;
  for (const std::uint64_t sum : sums) sink = sink + sum;
  return result;
}

}  // namespace spectralclip::bench

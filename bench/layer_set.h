// SPDX-License-Identifier: Apache-2.0
// The weight matrices of GPT-2 124M as one set: made once, restored before every measurement.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gradients.h"
#include "kernels/norm.h"
#include "spectralclip/executor.h"

namespace spectralclip::bench {

struct LayerShape {
  const char* name;
  std::int64_t rows;
  std::int64_t cols;
};
inline constexpr std::array<LayerShape, 4> kGpt2Block = {
    {{"attn.c_attn", 2304, 768}, {"attn.c_proj", 768, 768}, {"mlp.c_fc", 3072, 768}, {"mlp.c_proj", 768, 3072}}};

struct LayerSet {
  std::vector<Layer> layers;
  std::vector<std::size_t> largest_first;

  [[nodiscard]] std::int64_t entries() const {
    std::int64_t sum = 0;
    for (const Layer& layer : layers) sum += layer.work[0].entries();
    return sum;
  }
  [[nodiscard]] double bytes() const { return 4.0 * static_cast<double>(entries()); }
};

// In every variant the same share of the layers is loud, and every layer is loud in one or two of the three: a window
// of kLoudShare over a permutation, moved by a third from variant to variant.
inline LayerSet make_layer_set(std::int64_t blocks, Executor& executor) {
  LayerSet set;
  const std::int64_t count = blocks * static_cast<std::int64_t>(kGpt2Block.size());
  const std::int64_t loud = std::lround(kLoudShare * static_cast<double>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Layer layer;
    layer.name = "h." + std::to_string(i / 4) + "." + kGpt2Block[static_cast<std::size_t>(i % 4)].name + ".weight";
    layer.scale = 0.01 * static_cast<double>(1 + i % 5);
    layer.directions = 1 + i % 3;
    for (std::int64_t v = 0; v < kVariants; ++v) {
      constexpr std::int64_t kStride = 7;  // prime to count = 4 * blocks for the sizes in use
      layer.loud[static_cast<std::size_t>(v)] = (i * kStride + v * count / kVariants) % count < loud;
    }
    set.layers.push_back(std::move(layer));
  }
  auto fill = [&](std::int64_t i) {
    const LayerShape& shape = kGpt2Block[static_cast<std::size_t>(i % 4)];
    fill_layer(set.layers[static_cast<std::size_t>(i)], shape.rows, shape.cols);
  };
  executor.run(count, fill);
  set.largest_first.resize(set.layers.size());
  std::iota(set.largest_first.begin(), set.largest_first.end(), std::size_t{0});
  std::stable_sort(set.largest_first.begin(), set.largest_first.end(), [&](std::size_t a, std::size_t b) {
    return set.layers[a].work[0].entries() > set.layers[b].work[0].entries();
  });
  return set;
}

// The gradients of step `step` into the work buffers, then 64 MB of others through the caches, so that no contender
// finds its input there. Never inside the clock.
inline void restore(const LayerSet& set, std::int64_t step, Executor& executor) {
  const auto variant = static_cast<std::size_t>(step % kVariants);
  auto copy = [&](std::int64_t i) {
    const Layer& layer = set.layers[static_cast<std::size_t>(i)];
    std::memcpy(layer.work[0].data(), layer.master[variant].data(), layer.work[0].bytes());
  };
  executor.run(static_cast<std::int64_t>(set.layers.size()), copy);
  constexpr std::int64_t kEvict = std::int64_t{64} << 20;
  std::int64_t touched = 0;
  volatile double sink = 0;
  for (const Layer& layer : set.layers) {
    if (touched >= kEvict) break;
    const Buffer& other = layer.master[(variant + 1) % kVariants];
    sink = sink + kernels::sum_of_squares(other.data(), other.entries());
    touched += static_cast<std::int64_t>(other.bytes());
  }
}

}  // namespace spectralclip::bench

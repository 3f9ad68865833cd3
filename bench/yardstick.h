// SPDX-License-Identifier: Apache-2.0
// Norm clipping of the whole set, as good as this library can make it: one read for the norm, one read and write to
// scale, layers over threads largest first, and the second sweep backwards so that it begins with what is still cached.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "clip/entries.h"
#include "layer_set.h"
#include "spectralclip/clip.h"
#include "spectralclip/executor.h"

namespace spectralclip::bench {

class NormClip {
 public:
  explicit NormClip(const LayerSet& set) : set_(set), norms_(set.layers.size()) {}

  // Always scales: to half the norm found. Returns that norm.
  double run(Executor& executor) {
    const auto count = static_cast<std::int64_t>(norms_.size());
    auto measure = [&](std::int64_t i) { norms_[at(i)] = frobenius_norm(set_.layers[at(i)].work[0].view()); };
    executor.run(count, measure);
    double sum = 0;
    for (const double norm : norms_) sum += norm * norm;
    const double total = std::sqrt(sum);
    const double max_norm = kShare * total;
    const double factor = max_norm / total;
    auto scale = [&](std::int64_t i) {
      scale_entries(set_.layers[at(count - 1 - i)].work[0].view(), factor, serial_executor());
    };
    executor.run(count, scale);
    return total;
  }

  static constexpr double kShare = 0.5;

 private:
  [[nodiscard]] std::size_t at(std::int64_t i) const { return set_.largest_first[static_cast<std::size_t>(i)]; }

  const LayerSet& set_;
  std::vector<double> norms_;
};

// Term by term in double: what the norm must agree with.
inline double reference_norm(const LayerSet& set, std::int64_t step, Executor& executor) {
  std::vector<double> sums(set.layers.size());
  auto task = [&](std::int64_t i) {
    const Buffer& G = set.layers[static_cast<std::size_t>(i)].master[static_cast<std::size_t>(step % kVariants)];
    double sum = 0;
    for (std::int64_t j = 0; j < G.entries(); ++j)
      sum += static_cast<double>(G.data()[j]) * static_cast<double>(G.data()[j]);
    sums[static_cast<std::size_t>(i)] = sum;
  };
  executor.run(static_cast<std::int64_t>(sums.size()), task);
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace spectralclip::bench

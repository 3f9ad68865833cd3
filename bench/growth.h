// SPDX-License-Identifier: Apache-2.0
// Time per entry of one large matrix against that of layers of usual size: 4096 x 4096 beside seven of 768 x 3072, so
// that both sides read the same 64 MB from memory. MatrixClipper, threads inside the matrix.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "findings.h"
#include "gradients.h"
#include "spectralclip/clip.h"
#include "timing.h"

namespace spectralclip::bench {

// Matrices of one shape, each with a clipper of its own.
class GrowthSide {
 public:
  GrowthSide(std::int64_t count, std::int64_t rows, std::int64_t cols, Executor& all)
      : layers_(static_cast<std::size_t>(count)) {
    auto fill = [&](std::int64_t i) {
      layers_[static_cast<std::size_t>(i)].name = "growth." + std::to_string(rows) + "." + std::to_string(i);
      fill_layer(layers_[static_cast<std::size_t>(i)], rows, cols);
    };
    all.run(count, fill);
  }
  void forget() {
    clippers_.clear();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Buffer& work = layers_[i].work[0];
      clippers_.emplace_back(work.rows(), work.cols(), ClipOptions{}, static_cast<std::uint64_t>(i));
    }
  }
  void restore(std::int64_t step) {
    for (const Layer& layer : layers_) {
      const Buffer& master = layer.master[static_cast<std::size_t>(step % kVariants)];
      std::memcpy(layer.work[0].data(), master.data(), master.bytes());
    }
  }
  // Returns whether every matrix had exactly `expected` values above tau.
  bool clip(double tau, std::int64_t expected, Executor& executor) {
    bool right = true;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const ClipReport report = clippers_[i].clip(layers_[i].work[0].view(), tau, executor);
      right = right && report.status == ClipStatus::ok && report.clipped == expected;
    }
    return right;
  }
  [[nodiscard]] double entries() const {
    return static_cast<double>(layers_.size()) * static_cast<double>(layers_[0].work[0].entries());
  }

 private:
  std::vector<Layer> layers_;
  std::vector<MatrixClipper> clippers_;
};

struct GrowthTimes {
  std::vector<double> large, usual;  // ns per entry, one per round
};

inline GrowthTimes measure_growth(GrowthSide& large, GrowthSide& usual, double tau, std::int64_t expected, int rounds,
                                  Executor& executor, Results& results) {
  GrowthTimes times;
  large.forget();
  usual.forget();
  for (int step = 0; step < rounds + kVariants; ++step) {  // the first kVariants warm up
    for (const bool first : {step % 2 == 0, step % 2 != 0}) {
      GrowthSide& side = first ? large : usual;
      side.restore(step);
      bool right = true;
      const double ms = milliseconds([&] { right = side.clip(tau, expected, executor); });
      if (step < kVariants) continue;
      results.require(right, "growth: not the expected number of values clipped");
      (first ? times.large : times.usual).push_back(ms * 1e6 / side.entries());
    }
  }
  return times;
}

inline void run_growth(const std::vector<int>& threads, int rounds, Executor& all, Results& results) {
  show_progress("growth: making matrices");
  GrowthSide large(1, 4096, 4096, all), usual(7, 768, 3072, all);
  for (const int count : threads) {
    show_progress("growth, " + std::to_string(count) + " thread(s)");
    ThreadPool pool(count);
    const double above = 2, between = (relative_sigma(1) + relative_sigma(2)) / 2;  // sigma_1 = 1: none, two clipped
    const GrowthTimes quiet = measure_growth(large, usual, above, 0, rounds, pool, results);
    const GrowthTimes loud = measure_growth(large, usual, between, 2, rounds, pool, results);
    const auto mixed = [](double q, double l) { return (1 - kLoudShare) * q + kLoudShare * l; };
    const double large_mix = mixed(median(quiet.large), median(loud.large));
    const double usual_mix = mixed(median(quiet.usual), median(loud.usual));
    results.add({"time per entry, 4096 x 4096 over 768 x 3072, quiet", count, paired_ratio(quiet.large, quiet.usual),
                 "x", Bar{1.3}, number(median(quiet.large)) + " ns against " + number(median(quiet.usual))});
    results.add({"time per entry, 4096 x 4096 over 768 x 3072, 45 % mix", count, large_mix / usual_mix, "x", Bar{1.3},
                 number(large_mix) + " ns against " + number(usual_mix)});
  }
}

}  // namespace spectralclip::bench

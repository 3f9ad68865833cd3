// SPDX-License-Identifier: Apache-2.0
// The machine's peak of float32 multiply-adds with the instruction set that the kernels chose. The set is looked up by
// name rather than by Highway's dispatcher, so that the benchmark links without Highway when the library does.
#pragma once

#if __has_include("hwy/highway.h")
#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "peak_flops_inl.h"
#include "hwy/foreach_target.h"
#include "peak_flops_inl.h"
#define SPECTRALCLIP_BENCH_HIGHWAY 1
#endif

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "spectralclip/executor.h"
#include "spectralclip/version.h"
#include "timing.h"

namespace spectralclip::bench {

using FlopsLoop = double (*)(std::int64_t rounds, float* sink);

inline double plain_loop(std::int64_t rounds, float* sink) {  // eight chains of whatever the compiler makes of them
  float c[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (float& x : c) x = x * 0.5F + 1.0F;
  }
  *sink = c[0] + c[1] + c[2] + c[3] + c[4] + c[5] + c[6] + c[7];
  return 2.0 * 8 * static_cast<double>(rounds);
}

inline FlopsLoop find_flops_loop() {
#if SPECTRALCLIP_BENCH_HIGHWAY
  const std::string_view chosen = simd_target();
#ifdef HWY_CHOOSE_AVX3_ZEN4
  if (chosen == "AVX3_ZEN4") return HWY_CHOOSE_AVX3_ZEN4(multiply_add_loop);
#endif
#ifdef HWY_CHOOSE_AVX3
  if (chosen == "AVX3") return HWY_CHOOSE_AVX3(multiply_add_loop);
#endif
#ifdef HWY_CHOOSE_AVX2
  if (chosen == "AVX2") return HWY_CHOOSE_AVX2(multiply_add_loop);
#endif
#ifdef HWY_CHOOSE_SSE4
  if (chosen == "SSE4") return HWY_CHOOSE_SSE4(multiply_add_loop);
#endif
#ifdef HWY_CHOOSE_SSE2
  if (chosen == "SSE2") return HWY_CHOOSE_SSE2(multiply_add_loop);
#endif
#ifdef HWY_CHOOSE_NEON
  if (chosen == "NEON") return HWY_CHOOSE_NEON(multiply_add_loop);
#endif
#endif
  return nullptr;
}

// GF/s of all threads of the executor together: the best of a few tries, for a peak is a peak.
inline double measure_peak_gflops(Executor& executor) {
  constexpr std::int64_t kRounds = 8'000'000;  // about 15 ms
  constexpr int kTries = 5;
  FlopsLoop loop = find_flops_loop();
  if (loop == nullptr) loop = plain_loop;
  const int threads = executor.concurrency();
  std::vector<float> sinks(static_cast<std::size_t>(threads));
  std::vector<double> flops(static_cast<std::size_t>(threads));
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    auto task = [&](std::int64_t t) {
      flops[static_cast<std::size_t>(t)] = loop(kRounds, &sinks[static_cast<std::size_t>(t)]);
    };
    const double ms = milliseconds([&] { executor.run(threads, task); });
    double sum = 0;
    for (const double f : flops) sum += f;
    best = std::max(best, sum / ms * 1e-6);
  }
  return best;
}

}  // namespace spectralclip::bench

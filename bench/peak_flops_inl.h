// SPDX-License-Identifier: Apache-2.0
// Multiply-adds on registers alone, compiled once per instruction set by peak_flops.h; hence no include guard.
#include <array>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains: more than latency times pipes (8 on Zen 3, 8 to 10 on recent Intel), few enough for 16 registers.
// Returns the flops done; *sink keeps the work alive.
inline double multiply_add_loop(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  auto a = hn::Set(d, 0.5F), b = hn::Set(d, 1.0F);
  const auto start = [&](float x) HWY_ATTR { return hn::Set(d, x); };  // all different, or equal chains would be merged
  auto c0 = start(0.1F), c1 = start(0.2F), c2 = start(0.3F), c3 = start(0.4F), c4 = start(0.6F), c5 = start(0.7F);
  auto c6 = start(0.8F), c7 = start(0.9F), c8 = start(1.1F), c9 = start(1.2F), c10 = start(1.3F), c11 = start(1.4F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b), c1 = hn::MulAdd(c1, a, b), c2 = hn::MulAdd(c2, a, b), c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b), c5 = hn::MulAdd(c5, a, b), c6 = hn::MulAdd(c6, a, b), c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b), c9 = hn::MulAdd(c9, a, b), c10 = hn::MulAdd(c10, a, b), c11 = hn::MulAdd(c11, a, b);
  }
  const auto low = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(c4, c5));
  const auto high = hn::Add(hn::Add(hn::Add(c6, c7), hn::Add(c8, c9)), hn::Add(c10, c11));
  HWY_ALIGN std::array<float, hn::MaxLanes(hn::ScalableTag<float>())> lanes;
  hn::Store(hn::Add(low, high), d, lanes.data());
  *sink = lanes[0];
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace spectralclip::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

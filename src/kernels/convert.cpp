// SPDX-License-Identifier: Apache-2.0
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/convert.h"

#include "kernels/scalar_convert.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void widen_bf16(const BFloat16* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t n) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from + i));
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(d, bits)), d, reinterpret_cast<uint32_t*>(to + i));
  }
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

// The integer form of to_bfloat16: add half a unit (ties to even), cut; NaN keeps its sign and stays quiet.
void narrow_bf16(const float* HWY_RESTRICT from, BFloat16* HWY_RESTRICT to, int64_t n) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + i));
    const auto top = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(top, hn::Set(d, 1U));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffU))));
    const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(d, 0x7fffffffU)));
    const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
    const auto result = hn::IfThenElse(is_nan, hn::Or(top, hn::Set(d, 0x40U)), rounded);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, reinterpret_cast<uint16_t*>(to + i));
  }
  for (; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

void widen_f16(const Float16* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64  // hardware conversion; elsewhere the scalar twin is as good
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from + i))), d, to + i);
  }
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

void narrow_f16(const float* HWY_RESTRICT from, Float16* HWY_RESTRICT to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, from + i)), d16, reinterpret_cast<hwy::float16_t*>(to + i));
  }
#endif
  for (; i < n; ++i) to[i] = to_float16(from[i]);
}

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spectralclip::kernels {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(narrow_f16);

void convert(const BFloat16* from, float* to, int64_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(from, to, n); }
void convert(const Float16* from, float* to, int64_t n) { HWY_DYNAMIC_DISPATCH(widen_f16)(from, to, n); }
void convert(const float* from, BFloat16* to, int64_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(from, to, n); }
void convert(const float* from, Float16* to, int64_t n) { HWY_DYNAMIC_DISPATCH(narrow_f16)(from, to, n); }

}  // namespace spectralclip::kernels
#endif
#endif  // !SPECTRALCLIP_NO_SIMD

// SPDX-License-Identifier: Apache-2.0
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/norm.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

// Eight accumulators hide the latency; a run of 4096 entries keeps every float sum short (64 terms at 8 lanes).
template <class T>
HWY_INLINE double sum_of_squares_run(const T* HWY_RESTRICT x, int64_t n) {
  constexpr int kAccumulators = 8;
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  Vector<T> sum[kAccumulators];
  for (auto& s : sum) s = hn::Zero(d);
  int64_t i = 0;
  for (; i + kAccumulators * N <= n; i += kAccumulators * N) {
    for (int a = 0; a < kAccumulators; ++a) {
      const auto v = pinned<T>(hn::LoadU(d, x + i + a * N));
      sum[a] = hn::MulAdd(v, v, sum[a]);
    }
  }
  for (; i < n; i += N) {
    const auto v = i + N <= n ? hn::LoadU(d, x + i) : load_tail<T>(x + i, n - i);
    sum[0] = hn::MulAdd(v, v, sum[0]);
  }
  for (int a = 1; a < kAccumulators; ++a) sum[0] = hn::Add(sum[0], sum[a]);
  return sum_lanes<T>(sum[0]);
}

template <class T>
HWY_INLINE double sum_squares(const T* x, int64_t n) {
  constexpr int64_t kRun = 4096;
  double sum = 0;
  for (int64_t i = 0; i < n; i += kRun) sum += sum_of_squares_run(x + i, std::min(kRun, n - i));
  return sum;
}

template <class T>
HWY_INLINE void scale(T* HWY_RESTRICT x, int64_t n, T factor) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    for (int a = 0; a < 4; ++a) hn::StoreU(hn::Mul(hn::LoadU(d, x + i + a * N), f), d, x + i + a * N);
  }
  for (; i < n; ++i) x[i] *= factor;
}

template <class T>
HWY_INLINE double largest(const T* HWY_RESTRICT x, int64_t n) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d);
  auto poison = hn::Zero(d);  // x * 0 summed: NaN as soon as one entry is NaN or Inf
  int64_t i = 0;
  for (; i + N <= n; i += N) {
    const auto v = hn::LoadU(d, x + i);
    most = hn::Max(most, hn::Abs(v));
    poison = hn::MulAdd(v, hn::Zero(d), poison);
  }
  HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())];
  HWY_ALIGN T bad[hn::MaxLanes(Tag<T>())];
  hn::Store(most, d, lanes);
  hn::Store(poison, d, bad);
  double result = 0;
  double nan = 0;
  for (int64_t a = 0; a < N; ++a) {
    result = std::max(result, static_cast<double>(lanes[a]));
    nan += static_cast<double>(bad[a]);
  }
  for (; i < n; ++i) {
    result = std::max(result, static_cast<double>(x[i] < 0 ? -x[i] : x[i]));
    nan += static_cast<double>(x[i]) * 0.0;
  }
  return nan == 0 ? result : nan;
}

double sum_squares_f32(const float* x, int64_t n) { return sum_squares(x, n); }
double sum_squares_f64(const double* x, int64_t n) { return sum_squares(x, n); }
void scale_f32(float* x, int64_t n, float factor) { scale(x, n, factor); }
void scale_f64(double* x, int64_t n, double factor) { scale(x, n, factor); }
double largest_f32(const float* x, int64_t n) { return largest(x, n); }
double largest_f64(const double* x, int64_t n) { return largest(x, n); }
const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spectralclip::kernels {

HWY_EXPORT(sum_squares_f32);
HWY_EXPORT(sum_squares_f64);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_f64);
HWY_EXPORT(largest_f32);
HWY_EXPORT(largest_f64);
HWY_EXPORT(target_name);

double sum_of_squares(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_squares_f32)(x, n); }
double sum_of_squares(const double* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_squares_f64)(x, n); }
void scale_inplace(float* x, int64_t n, float factor) { HWY_DYNAMIC_DISPATCH(scale_f32)(x, n, factor); }
void scale_inplace(double* x, int64_t n, double factor) { HWY_DYNAMIC_DISPATCH(scale_f64)(x, n, factor); }
double max_abs(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(largest_f32)(x, n); }
double max_abs(const double* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(largest_f64)(x, n); }
const char* chosen_target() noexcept { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace spectralclip::kernels
#endif
#endif  // !SPECTRALCLIP_NO_SIMD

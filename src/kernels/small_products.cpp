// SPDX-License-Identifier: Apache-2.0
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/small_products.h"

#include "kernels/fused_pass.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/small_products.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

HWY_INLINE Vector<double> load_double(Tag<double> d, const double* x) { return hn::LoadU(d, x); }
HWY_INLINE Vector<double> load_double(Tag<double> d, const float* x) {
  const hn::Rebind<float, Tag<double>> half;
  return hn::PromoteTo(d, hn::LoadU(half, x));
}

// R rows starting at `a` against one row `b`: R accumulators. n is a multiple of the vector (padding is zero).
template <class T, int R>
HWY_INLINE void gram_strip(const T* a, int64_t lda, const T* b, int64_t n, double* out, int64_t ldo) {
  const Tag<double> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  Vector<double> sum[R];
  for (auto& s : sum) s = hn::Zero(d);
  for (int64_t j = 0; j < n; j += N) {
    const auto y = load_double(d, b + j);
    for (int r = 0; r < R; ++r) sum[r] = hn::MulAdd(load_double(d, a + r * lda + j), y, sum[r]);
  }
  for (int r = 0; r < R; ++r) out[r * ldo] = sum_lanes<double>(sum[r]);
}

template <class T>
HWY_INLINE void gram(const T* A, int64_t k, int64_t n, int64_t lda, double* K) {
  const int64_t n_padded = (n + 15) / 16 * 16;
  for (int64_t b = 0; b < k; ++b) {
    int64_t a = 0;
    for (; a + 4 <= b + 1; a += 4) gram_strip<T, 4>(A + a * lda, lda, A + b * lda, n_padded, K + a * k + b, k);
    for (; a <= b; ++a) gram_strip<T, 1>(A + a * lda, lda, A + b * lda, n_padded, K + a * k + b, k);
    for (a = 0; a < b; ++a) K[b * k + a] = K[a * k + b];
  }
}

template <class T>
HWY_INLINE void cross_gram(const T* A, int64_t ka, const T* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  const int64_t n_padded = (n + 15) / 16 * 16;
  for (int64_t b = 0; b < kb; ++b) {
    int64_t a = 0;
    for (; a + 4 <= ka; a += 4) gram_strip<T, 4>(A + a * lda, lda, B + b * lda, n_padded, K + a * kb + b, kb);
    for (; a < ka; ++a) gram_strip<T, 1>(A + a * lda, lda, B + b * lda, n_padded, K + a * kb + b, kb);
  }
}

template <class T>
HWY_INLINE void combine(const double* M, int64_t r, int64_t k, int64_t ldm, const T* HWY_RESTRICT A, int64_t n,
                        int64_t lda, T* HWY_RESTRICT out) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n_padded = padded(n);
  for (int64_t i = 0; i < r; ++i) {
    for (int64_t j = 0; j < n_padded; j += 2 * N) {
      const bool both = j + N < n_padded;
      auto low = hn::Zero(d);
      auto high = hn::Zero(d);
      for (int64_t c = 0; c < k; ++c) {
        const auto m = hn::Set(d, static_cast<T>(M[i * ldm + c]));
        low = hn::MulAdd(m, hn::Load(d, A + c * lda + j), low);
        if (both) high = hn::MulAdd(m, hn::Load(d, A + c * lda + j + N), high);
      }
      hn::Store(low, d, out + i * lda + j);
      if (both) hn::Store(high, d, out + i * lda + j + N);
    }
  }
}

template <class T>
HWY_INLINE void add(T* HWY_RESTRICT y, const T* HWY_RESTRICT x, int64_t n) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
  for (; i < n; ++i) y[i] += x[i];
}

void gram_f32(const float* A, int64_t k, int64_t n, int64_t lda, double* K) { gram(A, k, n, lda, K); }
void gram_f64(const double* A, int64_t k, int64_t n, int64_t lda, double* K) { gram(A, k, n, lda, K); }
void cross_f32(const float* A, int64_t ka, const float* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  cross_gram(A, ka, B, kb, n, lda, K);
}
void cross_f64(const double* A, int64_t ka, const double* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  cross_gram(A, ka, B, kb, n, lda, K);
}
void combine_f32(const double* M, int64_t r, int64_t k, int64_t ldm, const float* A, int64_t n, int64_t lda,
                 float* out) {
  combine(M, r, k, ldm, A, n, lda, out);
}
void combine_f64(const double* M, int64_t r, int64_t k, int64_t ldm, const double* A, int64_t n, int64_t lda,
                 double* out) {
  combine(M, r, k, ldm, A, n, lda, out);
}
void add_f32(float* y, const float* x, int64_t n) { add(y, x, n); }
void add_f64(double* y, const double* x, int64_t n) { add(y, x, n); }

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spectralclip::kernels {

HWY_EXPORT(gram_f32);
HWY_EXPORT(gram_f64);
HWY_EXPORT(cross_f32);
HWY_EXPORT(cross_f64);
HWY_EXPORT(combine_f32);
HWY_EXPORT(combine_f64);
HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);

void gram_rows(const float* A, int64_t k, int64_t n, int64_t lda, double* K) {
  HWY_DYNAMIC_DISPATCH(gram_f32)(A, k, n, lda, K);
}
void gram_rows(const double* A, int64_t k, int64_t n, int64_t lda, double* K) {
  HWY_DYNAMIC_DISPATCH(gram_f64)(A, k, n, lda, K);
}
void cross_gram_rows(const float* A, int64_t ka, const float* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  HWY_DYNAMIC_DISPATCH(cross_f32)(A, ka, B, kb, n, lda, K);
}
void cross_gram_rows(const double* A, int64_t ka, const double* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  HWY_DYNAMIC_DISPATCH(cross_f64)(A, ka, B, kb, n, lda, K);
}
void combine_rows(const double* M, int64_t r, int64_t k, int64_t ldm, const float* A, int64_t n, int64_t lda,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(combine_f32)(M, r, k, ldm, A, n, lda, out);
}
void combine_rows(const double* M, int64_t r, int64_t k, int64_t ldm, const double* A, int64_t n, int64_t lda,
                  double* out) {
  HWY_DYNAMIC_DISPATCH(combine_f64)(M, r, k, ldm, A, n, lda, out);
}
void add_inplace(float* y, const float* x, int64_t n) { HWY_DYNAMIC_DISPATCH(add_f32)(y, x, n); }
void add_inplace(double* y, const double* x, int64_t n) { HWY_DYNAMIC_DISPATCH(add_f64)(y, x, n); }

}  // namespace spectralclip::kernels
#endif
#endif  // !SPECTRALCLIP_NO_SIMD

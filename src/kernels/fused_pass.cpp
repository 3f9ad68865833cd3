// SPDX-License-Identifier: Apache-2.0
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/fused_pass.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fused_pass.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

// Zt[c] += sum_r W[r][c] G[r] over [0, n): R rows and C columns, R*C broadcasts held in registers.
// Meanwhile asks for kAhead rows of the block that comes next, at `next`, from memory, and for kSoon rows of the strip
// that comes next, at `soon`, from L2: spread over the column pairs, so that both happen while there is arithmetic to
// do.
template <class T, int R, int C, int kAhead, int kSoon>
HWY_INLINE void axpy_tile(const T* HWY_RESTRICT G, int64_t stride, const T* HWY_RESTRICT W, int64_t k, int64_t n,
                          T* HWY_RESTRICT Zt, int64_t ldz, const T* next, const T* soon) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  Vector<T> w[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) w[r][c] = hn::Set(d, W[r * k + c]);
  }
  const auto add_products = [&](int64_t at) HWY_ATTR __attribute__((always_inline)) {
    Vector<T> z[C];
    for (int c = 0; c < C; ++c) z[c] = hn::Load(d, Zt + c * ldz + at);
    for (int r = 0; r < R; ++r) {
      const auto g = pinned<T>(hn::LoadU(d, G + r * stride + at));
      for (int c = 0; c < C; ++c) z[c] = hn::MulAdd(g, w[r][c], z[c]);
    }
    for (int c = 0; c < C; ++c) hn::Store(z[c], d, Zt + c * ldz + at);
  };
  int64_t j = 0;
  for (; j + 2 * N <= n; j += 2 * N) {  // about a cache line
    for (int a = 0; a < kAhead; ++a) __builtin_prefetch(next + a * stride + j, 0, 2);
    for (int a = 0; a < kSoon; ++a) __builtin_prefetch(soon + a * stride + j, 0, 3);
    add_products(j);
    add_products(j + N);
  }
  for (; j + N <= n; j += N) add_products(j);
  if (j < n) {
    for (int r = 0; r < R; ++r) {
      const auto g = load_tail<T>(G + r * stride + j, n - j);
      for (int c = 0; c < C; ++c) {
        T* z = Zt + c * ldz + j;
        hn::Store(hn::MulAdd(g, w[r][c], hn::Load(d, z)), d, z);
      }
    }
  }
}

// Zt += (G_block^T W)^T, tile by tile: a strip of rows of G and the tile of Zt stay in L1 while the columns go by. The
// product with V has asked for every other row of the next block; here the first column pairs ask for the rest.
template <class T>
HWY_INLINE void add_transposed_product(const FusedPass<T>& pass, const T* G, int64_t rows, const T* W) {
  const int64_t ldz = padded(pass.cols);
  const int64_t tile = tile_entries<T>(pass.k);
  for (int64_t j = 0; j < pass.cols; j += tile) {
    const int64_t n = std::min(tile, pass.cols - j);
    int64_t i = 0;
    for (; i + kStripRows <= rows; i += kStripRows) {
      const T* g = G + i * pass.stride + j;
      const T* w = W + i * pass.k;
      const T* next = g + (rows + 1) * pass.stride;
      T* z = pass.Zt + j;
      int64_t c = 0;
      const T* soon = g + kStripRows * pass.stride;
      for (; c < std::min<int64_t>(pass.k, kStripRows); c += 2) {
        axpy_tile<T, kStripRows, 2, 1, 2>(g, pass.stride, w + c, pass.k, n, z + c * ldz, ldz, next + c * pass.stride,
                                          soon + c * pass.stride);
      }
      for (; c < pass.k; c += 2) {
        axpy_tile<T, kStripRows, 2, 0, 0>(g, pass.stride, w + c, pass.k, n, z + c * ldz, ldz, g, g);
      }
    }
    for (; i < rows; ++i) {
      const T* g = G + i * pass.stride + j;
      for (int64_t c = 0; c < pass.k; c += 2) {
        axpy_tile<T, 1, 2, 0, 0>(g, pass.stride, W + i * pass.k + c, pass.k, n, pass.Zt + c * ldz + j, ldz, g, g);
      }
    }
  }
}

// S += W^T W: four rows of S at a time, summed in T over the block and in double beyond. A load may reach into the next
// row of W (the buffer has room behind the last); those lanes are not used.
template <class T>
HWY_INLINE void add_small_gram(const T* W, int64_t rows, int64_t k, double* S) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kStrip = 4;
  HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())];
  for (int64_t a = 0; a < k; a += kStrip) {
    const int64_t height = std::min(kStrip, k - a);
    for (int64_t b = 0; b < k; b += N) {
      Vector<T> sum[kStrip];
      for (auto& s : sum) s = hn::Zero(d);
      for (int64_t i = 0; i < rows; ++i) {
        const auto w = hn::LoadU(d, W + i * k + b);
        for (int64_t r = 0; r < kStrip; ++r) sum[r] = hn::MulAdd(hn::Set(d, W[i * k + a + r]), w, sum[r]);
      }
      for (int64_t r = 0; r < height; ++r) {
        hn::Store(sum[r], d, lanes);
        for (int64_t c = 0; c < std::min(N, k - b); ++c) S[(a + r) * k + b + c] += static_cast<double>(lanes[c]);
      }
    }
  }
}

template <class T>
HWY_INLINE double run_pass(const FusedPass<T>& pass) {
  const int64_t block = block_rows(pass.cols * static_cast<int64_t>(sizeof(T)));
  T* W = pass.scratch;
  T* partial = W + padded(block * pass.k + kPadEntries);
  double norm_squared = 0;
  for (int64_t i = 0; i < pass.rows; i += block) {
    const int64_t rows = std::min(block, pass.rows - i);
    const T* G = pass.G + i * pass.stride;
    norm_squared +=
        block_times_columns<T, true>(G, rows, pass.cols, pass.stride, pass.Vt, padded(pass.cols), pass.k, W, partial);
    add_small_gram(W, rows, pass.k, pass.S);
    add_transposed_product(pass, G, rows, W);
  }
  return norm_squared;
}

double run_pass_f32(const FusedPass<float>& pass) { return run_pass(pass); }
double run_pass_f64(const FusedPass<double>& pass) { return run_pass(pass); }

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spectralclip::kernels {

HWY_EXPORT(run_pass_f32);
HWY_EXPORT(run_pass_f64);

double fused_pass(const FusedPass<float>& pass) { return HWY_DYNAMIC_DISPATCH(run_pass_f32)(pass); }
double fused_pass(const FusedPass<double>& pass) { return HWY_DYNAMIC_DISPATCH(run_pass_f64)(pass); }

// W of the largest block and one vector of at most 64 bytes per entry of it.
template <class T>
int64_t fused_pass_scratch(int64_t k) noexcept {
  constexpr int64_t kMaxVectorBytes = 64;
  return padded(kMaxBlockRows * k + kPadEntries) +
         kMaxBlockRows * k * (kMaxVectorBytes / static_cast<int64_t>(sizeof(T)));
}
template int64_t fused_pass_scratch<float>(int64_t) noexcept;
template int64_t fused_pass_scratch<double>(int64_t) noexcept;

}  // namespace spectralclip::kernels
#endif
#endif  // !SPECTRALCLIP_NO_SIMD

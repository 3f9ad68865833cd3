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

// Columns of Z that a strip of rows is added to at a time: 6 x C broadcasts, C sums and an entry fill the registers.
inline constexpr int kTransposedColumns = kManyRegisters ? 4 : 2;

// Zt[c] += sum_r W[r][c] G[r] over [0, n): R rows and C columns, R*C broadcasts held in registers.
// Meanwhile asks for kAhead rows of the block that comes next, every other one from `next` on, from memory, and for
// kSoon rows of the strip that comes next, at `soon`, from L2: so that both happen while there is arithmetic to do.
template <class T, int R, int C, int kAhead, int kSoon>
HWY_INLINE void axpy_tile(const T* HWY_RESTRICT G, int64_t stride, const T* HWY_RESTRICT W, int64_t k, int64_t n,
                          T* HWY_RESTRICT Zt, int64_t ldz, const T* next, const T* soon) {
  const Tag<T> d;
  constexpr int64_t N = kLanes<T>;
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
  for (; j + kLine<T> <= n; j += kLine<T>) {
    for (int a = 0; a < kAhead; ++a) __builtin_prefetch(next + 2 * a * stride + j, 0, 2);
    for (int a = 0; a < kSoon; ++a) __builtin_prefetch(soon + a * stride + j, 0, 3);
    for (int64_t at = j; at < j + kLine<T>; at += N) add_products(at);
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

// All k columns for R rows. kAsk: the first sweeps ask for three rows of the next block, every other one from `next`
// on, and, where two columns go at a time, for the R rows behind these; with four, twice the arithmetic hides that.
template <class T, int R, bool kAsk>
HWY_INLINE void axpy_columns(const T* G, int64_t stride, const T* W, int64_t k, int64_t n, T* Zt, int64_t ldz,
                             const T* next) {
  constexpr int C = kTransposedColumns;
  const T* soon = G + R * stride;
  int64_t c = 0;
  if constexpr (kAsk) {
    if (C == 2 || k >= 3 * C) {
      for (; c < std::min<int64_t>(k, 3 * C); c += C, next += 2 * stride, soon += 2 * stride) {
        axpy_tile<T, R, C, 1, C == 2 ? 2 : 0>(G, stride, W + c, k, n, Zt + c * ldz, ldz, next, soon);
      }
    } else if (k >= C) {
      axpy_tile<T, R, C, 3, 0>(G, stride, W, k, n, Zt, ldz, next, soon);
      c = C;
    } else {
      axpy_tile<T, R, 2, 3, 0>(G, stride, W, k, n, Zt, ldz, next, soon);
      c = 2;
    }
  }
  for (; c + C <= k; c += C) axpy_tile<T, R, C, 0, 0>(G, stride, W + c, k, n, Zt + c * ldz, ldz, next, soon);
  for (; c < k; c += 2) axpy_tile<T, R, 2, 0, 0>(G, stride, W + c, k, n, Zt + c * ldz, ldz, next, soon);
}

// Zt += (G_block^T W)^T, tile by tile: a strip of rows of G and the tile of Zt stay in L1 while the columns go by. The
// product with V has asked for every other row of the next block; here the first columns ask for the rest.
template <class T>
HWY_INLINE void add_transposed_product(const FusedPass<T>& pass, const T* G, int64_t rows, int64_t tile, const T* W) {
  const int64_t ldz = padded(pass.cols);
  for (int64_t j = 0; j < pass.cols; j += tile) {
    const int64_t n = std::min(tile, pass.cols - j);
    int64_t i = 0;
    for (; i + kStripRows <= rows; i += kStripRows) {
      const T* g = G + i * pass.stride + j;
      axpy_columns<T, kStripRows, true>(g, pass.stride, W + i * pass.k, pass.k, n, pass.Zt + j, ldz,
                                        g + (rows + 1) * pass.stride);
    }
    for (; i < rows; ++i) {
      const T* g = G + i * pass.stride + j;
      axpy_columns<T, 1, false>(g, pass.stride, W + i * pass.k, pass.k, n, pass.Zt + j, ldz, g);
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
  const int64_t tile = tile_entries<T>(pass.k + 2 * kStripRows, pass.cols);  // this strip of rows and the next
  T* W = pass.scratch;
  T* partial = W + padded(block * pass.k + kPadEntries);
  double norm_squared = 0;
  for (int64_t i = 0; i < pass.rows; i += block) {
    const int64_t rows = std::min(block, pass.rows - i);
    const T* G = pass.G + i * pass.stride;
    norm_squared += block_times_columns<T, true>(G, rows, pass.cols, pass.stride, pass.Vt, padded(pass.cols), pass.k,
                                                 tile, W, partial);
    add_small_gram(W, rows, pass.k, pass.S);
    add_transposed_product(pass, G, rows, tile, W);
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

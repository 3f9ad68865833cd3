// SPDX-License-Identifier: Apache-2.0
// The inner products shared by the fused pass and the update: a few rows of G times a few columns of V, vectors along
// the row. Compiled once per instruction set; include only from kernels that go through foreach_target.h.
#if defined(SPECTRALCLIP_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPECTRALCLIP_TILE_INL_H_
#undef SPECTRALCLIP_TILE_INL_H_
#else
#define SPECTRALCLIP_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/fused_pass.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;

// Loads once and keeps the value in a register: GCC otherwise repeats the load as a memory operand of every
// multiply-add that uses it, and two loads a cycle are then the limit instead of two multiply-adds.
template <class T>
HWY_INLINE Vector<T> pinned(Vector<T> v) {
#if HWY_ARCH_X86_64 && HWY_COMPILER_GCC_ACTUAL && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  __asm__("" : "+x"(v.raw));
#endif
  return v;
}

// The first `count` < N entries at p, zeros behind them. A masked load of the target where it touches nothing else;
// elsewhere (SSE4, NEON) Highway's may read the whole vector, aligned, so the entries go through the stack.
template <class T>
HWY_INLINE Vector<T> load_tail(const T* HWY_RESTRICT p, int64_t count) {
  const Tag<T> d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())] = {};
  std::copy(p, p + count, lanes);
  return hn::Load(d, lanes);
#endif
}

template <class T>
HWY_INLINE void store_tail(Vector<T> v, T* HWY_RESTRICT p, int64_t count) {
  const Tag<T> d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())];
  hn::Store(v, d, lanes);
  std::copy(lanes, lanes + count, p);
#endif
}

// Entries of a row handled together: the tile of k columns of V (or Z), a strip of rows and the strip that comes next
// share a 32 KiB L1.
template <class T>
HWY_INLINE int64_t tile_entries(int64_t k) {
  const int64_t entries = (int64_t{28} << 10) / static_cast<int64_t>(sizeof(T)) / (k + 2 * kStripRows);
  return std::clamp<int64_t>(entries / 64 * 64, 64, 1024);
}

// partial[r][c] (+)= sum_j G[r][j] V[c][j] over [0, n), lane by lane, from zero on the first tile; squares += G^2 when
// kNorm.
// R rows and C columns: R*C accumulators hide the latency of the multiply-add, R + C loads feed R*C of them.
// `next`: a place in the block of rows that comes next, asked for meanwhile, as are the rows behind these (kNorm only:
// once per tile).
template <class T, int R, int C, bool kNorm>
HWY_INLINE void dot_tile(const T* HWY_RESTRICT G, int64_t stride, const T* HWY_RESTRICT Vt, int64_t ldv, int64_t n,
                         T* HWY_RESTRICT partial, int64_t ldp, Vector<T>* squares, const T* next, bool first) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  Vector<T> sum[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sum[r][c] = first ? hn::Zero(d) : hn::Load(d, partial + r * ldp + c * N);
  }
  Vector<T> square[R];
  for (int r = 0; r < R; ++r) square[r] = hn::Zero(d);
  const auto add_products = [&](int64_t at) HWY_ATTR __attribute__((always_inline)) {
    Vector<T> g[R];
    for (int r = 0; r < R; ++r) g[r] = pinned<T>(hn::LoadU(d, G + r * stride + at));
    for (int c = 0; c < C; ++c) {
      const auto v = pinned<T>(hn::Load(d, Vt + c * ldv + at));
      for (int r = 0; r < R; ++r) sum[r][c] = hn::MulAdd(g[r], v, sum[r][c]);
    }
    if constexpr (kNorm) {
      for (int r = 0; r < R; ++r) square[r] = hn::MulAdd(g[r], g[r], square[r]);
    }
  };
  int64_t j = 0;
  if constexpr (kNorm) {  // two vectors, about a cache line; twelve sums would not stay in registers then
    for (; j + 2 * N <= n; j += 2 * N) {
      __builtin_prefetch(next + j, 0, 2);
      for (int r = 0; r < R; ++r) __builtin_prefetch(G + (R + r) * stride + j, 0, 3);
      add_products(j);
      add_products(j + N);
    }
  }
  for (; j + N <= n; j += N) add_products(j);
  if (j < n) {  // the end of a row: V is padded with zeros, G is not
    for (int r = 0; r < R; ++r) {
      const auto g = load_tail<T>(G + r * stride + j, n - j);
      for (int c = 0; c < C; ++c) sum[r][c] = hn::MulAdd(g, hn::Load(d, Vt + c * ldv + j), sum[r][c]);
      if constexpr (kNorm) square[r] = hn::MulAdd(g, g, square[r]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) hn::Store(sum[r][c], d, partial + r * ldp + c * N);
    if constexpr (kNorm) *squares = hn::Add(*squares, square[r]);
  }
}

// C columns of one tile for `rows` rows, R at a time; the rest one by one.
template <class T, int R, int C, bool kNorm>
HWY_INLINE void dot_strip(const T* HWY_RESTRICT G, int64_t rows, int64_t stride, const T* HWY_RESTRICT Vt, int64_t ldv,
                          int64_t n, T* HWY_RESTRICT partial, int64_t ldp, Vector<T>* squares, const T* next,
                          bool first) {
  int64_t i = 0;
  for (; i + R <= rows; i += R) {
    dot_tile<T, R, C, kNorm>(G + i * stride, stride, Vt, ldv, n, partial + i * ldp, ldp, squares, next + i * stride,
                             first);
  }
  for (; i < rows; ++i) {
    dot_tile<T, 1, C, kNorm>(G + i * stride, stride, Vt, ldv, n, partial + i * ldp, ldp, squares, next + i * stride,
                             first);
  }
}

// All k columns for a strip of rows of one tile. Twelve sums, three entries and one column fill the sixteen registers
// of AVX2; where squares are summed too, eight sums leave room for them.
template <class T, bool kNorm>
HWY_INLINE void dot_columns(const T* HWY_RESTRICT G, int64_t rows, int64_t stride, const T* HWY_RESTRICT Vt,
                            int64_t ldv, int64_t k, int64_t n, T* HWY_RESTRICT partial, int64_t ldp, Vector<T>* squares,
                            const T* next, bool first) {
  const int64_t N = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  int64_t c = 0;
  if constexpr (kNorm) {
    if (k >= 4) {
      dot_strip<T, 2, 4, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
      c = 4;
    } else {
      dot_strip<T, 2, 2, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
      c = 2;
    }
  }
  for (; c + 4 <= k; c += 4) {
    dot_strip<T, 3, 4, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  }
  for (; c + 2 <= k; c += 2) {
    dot_strip<T, 3, 2, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  }
  for (; c < k; ++c) {
    dot_strip<T, 3, 1, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  }
}

// Sum of a vector's lanes in double, in a fixed order.
template <class T>
HWY_INLINE double sum_lanes(Vector<T> v) {
  const Tag<T> d;
  HWY_ALIGN T lanes[hn::MaxLanes(Tag<T>())];
  hn::Store(v, d, lanes);
  double sum = 0;
  for (size_t i = 0; i < hn::Lanes(d); ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

// W = G V for a block of rows: W is rows x k, packed. Returns ||block||_F^2 when kNorm.
// partial: rows * k vectors, kept in memory between tiles.
template <class T, bool kNorm>
HWY_INLINE double block_times_columns(const T* G, int64_t rows, int64_t cols, int64_t stride, const T* Vt, int64_t ldv,
                                      int64_t k, T* W, T* partial) {
  const Tag<T> d;
  const int64_t N = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ldp = k * N;
  double norm_squared = 0;
  const int64_t tile = tile_entries<T>(k);
  for (int64_t j = 0; j < cols; j += tile) {
    const int64_t n = std::min(tile, cols - j);
    for (int64_t i = 0; i < rows; i += kStripRows) {
      Vector<T> squares = hn::Zero(d);
      dot_columns<T, kNorm>(G + i * stride + j, std::min(kStripRows, rows - i), stride, Vt + j, ldv, k, n,
                            partial + i * ldp, ldp, &squares, G + (i + rows) * stride + j, j == 0);
      if constexpr (kNorm) norm_squared += sum_lanes<T>(squares);
    }
  }
  for (int64_t i = 0; i < rows * k; ++i) W[i] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, partial + i * N)));
  return norm_squared;
}

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SPECTRALCLIP_TILE_INL_H_

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

template <class T>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<T>()));  // no sizeless vectors: targets.h

// Entries of a cache line: prefetches go line by line.
template <class T>
inline constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));

// 32 vector registers rather than 16.
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;

// Loads once and keeps the value in a register: GCC otherwise repeats the load as a memory operand of every
// multiply-add that uses it, and two loads a cycle are then the limit instead of two multiply-adds.
template <class T>
HWY_INLINE Vector<T> pinned(Vector<T> v) {
#if HWY_ARCH_X86_64 && HWY_COMPILER_GCC_ACTUAL && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#if HWY_TARGET <= HWY_AVX3
  __asm__("" : "+v"(v.raw));  // any of 32 registers; "x" is the first sixteen
#else
  __asm__("" : "+x"(v.raw));
#endif
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

// Entries of a row handled together, the same number in every tile but the last. That many of `rows` rows, those of V
// (or Z) and of G, take 44 KiB: what is used again and again, V, stays in a 32 KiB L1.
template <class T>
HWY_INLINE int64_t tile_entries(int64_t rows, int64_t cols) {
  constexpr int64_t kStep = 64;
  const int64_t entries = (int64_t{44} << 10) / static_cast<int64_t>(sizeof(T)) / rows;
  const int64_t most = std::clamp<int64_t>(entries / kStep * kStep, kStep, 1024);
  const int64_t tiles = std::max<int64_t>((cols + most - 1) / most, 1);
  return ((cols + tiles - 1) / tiles + kStep - 1) / kStep * kStep;
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
  constexpr int64_t N = kLanes<T>;
  Vector<T> sum[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sum[r][c] = first ? hn::Zero(d) : hn::Load(d, partial + r * ldp + c * N);
  }
  Vector<T> square[R];
  for (int r = 0; r < R; ++r) square[r] = hn::Zero(d);
  const auto add_products = [&](int64_t at) HWY_ATTR __attribute__((always_inline)) {
    if constexpr (R > C && !kNorm) {  // the fewer ones are held, the others come one by one
      Vector<T> v[C];
      for (int c = 0; c < C; ++c) v[c] = pinned<T>(hn::Load(d, Vt + c * ldv + at));
      for (int r = 0; r < R; ++r) {
        const auto g = pinned<T>(hn::LoadU(d, G + r * stride + at));
        for (int c = 0; c < C; ++c) sum[r][c] = hn::MulAdd(g, v[c], sum[r][c]);
      }
    } else {
      Vector<T> g[R];
      for (int r = 0; r < R; ++r) g[r] = pinned<T>(hn::LoadU(d, G + r * stride + at));
      for (int c = 0; c < C; ++c) {
        const auto v = pinned<T>(hn::Load(d, Vt + c * ldv + at));
        for (int r = 0; r < R; ++r) sum[r][c] = hn::MulAdd(g[r], v, sum[r][c]);
      }
      if constexpr (kNorm) {
        for (int r = 0; r < R; ++r) square[r] = hn::MulAdd(g[r], g[r], square[r]);
      }
    }
  };
  int64_t j = 0;
  if constexpr (kNorm || kManyRegisters) {  // twelve sums of sixteen registers would not stay where they are
    for (; j + kLine<T> <= n; j += kLine<T>) {
      if constexpr (kNorm) {
        __builtin_prefetch(next + j, 0, 2);
        for (int r = 0; r < R; ++r) __builtin_prefetch(G + (R + r) * stride + j, 0, 3);
      }
      for (int64_t at = j; at < j + kLine<T>; at += N) add_products(at);
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
// of AVX2, as do six rows by two columns; where squares are summed too, eight sums leave room for them. With 32
// registers up to eight columns go by in the first sweep.
template <class T, bool kNorm>
HWY_INLINE void dot_columns(const T* HWY_RESTRICT G, int64_t rows, int64_t stride, const T* HWY_RESTRICT Vt,
                            int64_t ldv, int64_t k, int64_t n, T* HWY_RESTRICT partial, int64_t ldp, Vector<T>* squares,
                            const T* next, bool first) {
  constexpr int64_t N = kLanes<T>;
  int64_t c = 0;
  if constexpr (kNorm) {
    constexpr int64_t kMost = kManyRegisters ? 8 : 4;
    c = std::min(k, kMost);
    if (kManyRegisters && c == 8) {
      dot_strip<T, 2, kManyRegisters ? 8 : 2, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
    } else if (kManyRegisters && c == 6) {
      dot_strip<T, 2, kManyRegisters ? 6 : 2, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
    } else if (c == 4) {
      dot_strip<T, 2, 4, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
    } else {
      dot_strip<T, 2, 2, true>(G, rows, stride, Vt, ldv, n, partial, ldp, squares, next, first);
    }
  }
  for (; c + 4 <= k; c += 4) {
    dot_strip<T, 3, 4, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  }
  if (k - c == 3) {
    dot_strip<T, 3, 3, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  } else if (k - c == 2) {
    dot_strip<T, 6, 2, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
  } else if (k - c == 1) {
    dot_strip<T, 6, 1, false>(G, rows, stride, Vt + c * ldv, ldv, n, partial + c * N, ldp, squares, next, first);
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

#if HWY_TARGET != HWY_SCALAR
// The 128-bit blocks of a vector added up.
template <class D, class V>
HWY_INLINE auto add_blocks(D d, V v) {
  if constexpr (sizeof(hn::TFromD<D>) * hn::MaxLanes(d) <= 16) {
    return v;
  } else {
    const hn::Half<D> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

// sums[i] = the sum of vector i's lanes. A block's worth of vectors at a time: their lanes change places until each
// block has a sum of every one, which takes a third of the shuffles that the vectors would need one by one.
template <class T>
HWY_INLINE void add_lanes(const T* HWY_RESTRICT vectors, int64_t count, T* HWY_RESTRICT sums) {
  const Tag<T> d;
  constexpr int64_t N = kLanes<T>;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kBlock = 16 / sizeof(T);
  for (; i + kBlock <= count; i += kBlock) {
    const T* v = vectors + i * N;
    const auto add_pairs = [&](int64_t a) HWY_ATTR {
      const auto x = hn::Load(d, v + a * N);
      const auto y = hn::Load(d, v + (a + 1) * N);
      return hn::Add(hn::InterleaveLower(d, x, y), hn::InterleaveUpper(d, x, y));
    };
    auto sum = add_pairs(0);
    if constexpr (kBlock == 4) {
      const hn::Repartition<uint64_t, Tag<T>> pairs;
      const auto low = hn::BitCast(pairs, sum);
      const auto high = hn::BitCast(pairs, add_pairs(2));
      sum = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)),
                    hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
    }
    hn::StoreU(add_blocks(d, sum), hn::CappedTag<T, kBlock>(), sums + i);
  }
#endif
  for (; i < count; ++i) sums[i] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, vectors + i * N)));
}

// W = G V for a block of rows: W is rows x k, packed. Returns ||block||_F^2 when kNorm.
// partial: rows * k vectors, kept in memory between tiles.
template <class T, bool kNorm>
HWY_INLINE double block_times_columns(const T* G, int64_t rows, int64_t cols, int64_t stride, const T* Vt, int64_t ldv,
                                      int64_t k, int64_t tile, T* W, T* partial) {
  constexpr int64_t N = kLanes<T>;
  const int64_t ldp = k * N;
  double norm_squared = 0;
  for (int64_t j = 0; j < cols; j += tile) {
    const int64_t n = std::min(tile, cols - j);
    for (int64_t i = 0; i < rows; i += kStripRows) {
      Vector<T> squares = hn::Zero(Tag<T>());
      dot_columns<T, kNorm>(G + i * stride + j, std::min(kStripRows, rows - i), stride, Vt + j, ldv, k, n,
                            partial + i * ldp, ldp, &squares, G + (i + rows) * stride + j, j == 0);
      if constexpr (kNorm) norm_squared += sum_lanes<T>(squares);
    }
  }
  add_lanes(partial, rows * k, W);
  return norm_squared;
}

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SPECTRALCLIP_TILE_INL_H_

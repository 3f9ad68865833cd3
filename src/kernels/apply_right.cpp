// SPDX-License-Identifier: Apache-2.0
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/apply_right.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/apply_right.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace spectralclip::kernels::HWY_NAMESPACE {

// G[r] += sum_c W[r][c] Vt[c] over [0, n) for R rows and C columns. kLast: squares += new G^2, and the same place
// `ahead` entries further on, in the block of rows that comes next, is asked for.
template <class T, int R, int C, bool kLast>
HWY_INLINE void update_tile(T* HWY_RESTRICT G, int64_t stride, const T* HWY_RESTRICT W, int64_t ldw,
                            const T* HWY_RESTRICT Vt, int64_t ldv, int64_t n, int64_t ahead, Vector<T>* squares) {
  const Tag<T> d;
  constexpr int64_t N = kLanes<T>;
  Vector<T> w[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) w[r][c] = hn::Set(d, W[r * ldw + c]);
  }
  Vector<T> square[R];
  for (int r = 0; r < R; ++r) square[r] = hn::Zero(d);
  const auto add_products = [&](int64_t at) HWY_ATTR __attribute__((always_inline)) {
    Vector<T> g[R];
    for (int r = 0; r < R; ++r) g[r] = hn::LoadU(d, G + r * stride + at);
    for (int c = 0; c < C; ++c) {
      const auto v = pinned<T>(hn::Load(d, Vt + c * ldv + at));
      for (int r = 0; r < R; ++r) g[r] = hn::MulAdd(w[r][c], v, g[r]);
    }
    for (int r = 0; r < R; ++r) {
      hn::StoreU(g[r], d, G + r * stride + at);
      if constexpr (kLast) square[r] = hn::MulAdd(g[r], g[r], square[r]);
    }
  };
  int64_t j = 0;
  for (; j + kLine<T> <= n; j += kLine<T>) {
    if constexpr (kLast) {
      for (int r = 0; r < R; ++r) __builtin_prefetch(G + r * stride + j + ahead, 1, 2);
    }
    for (int64_t at = j; at < j + kLine<T>; at += N) add_products(at);
  }
  for (; j + N <= n; j += N) add_products(j);
  if (j < n) {
    for (int r = 0; r < R; ++r) {
      auto g = load_tail<T>(G + r * stride + j, n - j);
      for (int c = 0; c < C; ++c) g = hn::MulAdd(w[r][c], hn::Load(d, Vt + c * ldv + j), g);
      store_tail<T>(g, G + r * stride + j, n - j);
      if constexpr (kLast) square[r] = hn::MulAdd(g, g, square[r]);
    }
  }
  if constexpr (kLast) {
    for (int r = 0; r < R; ++r) *squares = hn::Add(*squares, square[r]);
  }
}

template <class T, int R, int C>
HWY_INLINE void update_columns(T* G, int64_t stride, const T* W, int64_t ldw, const T* Vt, int64_t ldv, int64_t n,
                               bool last, int64_t ahead, Vector<T>* squares) {
  if (last) {
    update_tile<T, R, C, true>(G, stride, W, ldw, Vt, ldv, n, ahead, squares);
  } else {
    update_tile<T, R, C, false>(G, stride, W, ldw, Vt, ldv, n, ahead, squares);
  }
}

// All c columns for R rows of one tile; returns the sum of squares of the result.
template <class T, int R>
HWY_INLINE double update_rows(const RightUpdate<T>& update, T* G, const T* W, const T* Vt, int64_t n, int64_t ahead) {
  const int64_t ldv = padded(update.cols);
  Vector<T> squares = hn::Zero(Tag<T>());
  int64_t c = 0;
  for (; c + 4 <= update.c; c += 4) {
    update_columns<T, R, 4>(G, update.stride, W + c, update.c, Vt + c * ldv, ldv, n, c + 4 == update.c, ahead,
                            &squares);
  }
  if (update.c - c == 3) {
    update_columns<T, R, 3>(G, update.stride, W + c, update.c, Vt + c * ldv, ldv, n, true, ahead, &squares);
  } else if (update.c - c == 2) {
    update_columns<T, R, 2>(G, update.stride, W + c, update.c, Vt + c * ldv, ldv, n, true, ahead, &squares);
  } else if (update.c - c == 1) {
    update_columns<T, R, 1>(G, update.stride, W + c, update.c, Vt + c * ldv, ldv, n, true, ahead, &squares);
  }
  return sum_lanes<T>(squares);
}

template <class T>
HWY_INLINE double update_block(const RightUpdate<T>& update, T* G, int64_t rows, int64_t tile, const T* W) {
  double norm_squared = 0;
  for (int64_t j = 0; j < update.cols; j += tile) {
    const int64_t n = std::min(tile, update.cols - j);
    int64_t i = 0;
    for (; i + 2 <= rows; i += 2) {
      norm_squared += update_rows<T, 2>(update, G + i * update.stride + j, W + i * update.c, update.Vt + j, n,
                                        rows * update.stride);
    }
    for (; i < rows; ++i) {
      norm_squared += update_rows<T, 1>(update, G + i * update.stride + j, W + i * update.c, update.Vt + j, n,
                                        rows * update.stride);
    }
  }
  return norm_squared;
}

template <class T>
HWY_INLINE double run_update(const RightUpdate<T>& update) {
  const int64_t block = block_rows(update.cols * static_cast<int64_t>(sizeof(T)));
  const int64_t tile = tile_entries<T>(update.c + kStripRows, update.cols);
  T* W = update.scratch;
  T* partial = W + padded(block * update.c + kPadEntries);
  double norm_squared = 0;
  for (int64_t i = 0; i < update.rows; i += block) {
    const int64_t rows = std::min(block, update.rows - i);
    T* G = update.G + i * update.stride;
    (void)block_times_columns<T, false>(G, rows, update.cols, update.stride, update.Vt, padded(update.cols), update.c,
                                        tile, W, partial);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < update.c; ++c) W[r * update.c + c] *= -update.coefficient[c];
    }
    norm_squared += update_block(update, G, rows, tile, W);
  }
  return norm_squared;
}

double run_update_f32(const RightUpdate<float>& update) { return run_update(update); }
double run_update_f64(const RightUpdate<double>& update) { return run_update(update); }

}  // namespace spectralclip::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spectralclip::kernels {

HWY_EXPORT(run_update_f32);
HWY_EXPORT(run_update_f64);

double apply_right(const RightUpdate<float>& update) { return HWY_DYNAMIC_DISPATCH(run_update_f32)(update); }
double apply_right(const RightUpdate<double>& update) { return HWY_DYNAMIC_DISPATCH(run_update_f64)(update); }

}  // namespace spectralclip::kernels
#endif
#endif  // !SPECTRALCLIP_NO_SIMD

// SPDX-License-Identifier: Apache-2.0
// A plain scalar twin of every kernel: the oracle of the tests, and the kernels themselves where SIMD is switched off
// (no_simd.cpp). Obvious loops in the order of the formula, sums in double; no blocking, no tiles, no speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/apply_right.h"
#include "kernels/fused_pass.h"
#include "kernels/scalar_convert.h"

namespace spectralclip::kernels::reference {

template <class T>
[[nodiscard]] double sum_of_squares(const T* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

template <class T>
void scale_inplace(T* x, std::int64_t n, T factor) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
[[nodiscard]] double max_abs(const T* x, std::int64_t n) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return std::numeric_limits<double>::quiet_NaN();
    most = std::max(most, std::abs(static_cast<double>(x[i])));
  }
  return most;
}

template <class T>
[[nodiscard]] double dot(const T* x, const T* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

// w = V^T g for one row g of G: k inner products, each rounded once to T.
template <class T>
void row_times_columns(const T* g, std::int64_t n, const T* Vt, std::int64_t k, T* w) {
  for (std::int64_t c = 0; c < k; ++c) w[c] = static_cast<T>(dot(g, Vt + c * padded(n), n));
}

template <class T>
[[nodiscard]] double fused_pass(const FusedPass<T>& pass) {
  double norm_squared = 0;
  T* w = pass.scratch;  // the row of W at hand
  for (std::int64_t i = 0; i < pass.rows; ++i) {
    const T* g = pass.G + i * pass.stride;
    row_times_columns(g, pass.cols, pass.Vt, pass.k, w);
    for (std::int64_t c = 0; c < pass.k; ++c) {
      T* z = pass.Zt + c * padded(pass.cols);
      for (std::int64_t j = 0; j < pass.cols; ++j) z[j] += g[j] * w[c];
      for (std::int64_t d = 0; d < pass.k; ++d) {
        pass.S[c * pass.k + d] += static_cast<double>(w[c]) * static_cast<double>(w[d]);
      }
    }
    norm_squared += sum_of_squares(g, pass.cols);
  }
  return norm_squared;
}

template <class T>
double apply_right(const RightUpdate<T>& update) {
  double norm_squared = 0;
  T* w = update.scratch;
  for (std::int64_t i = 0; i < update.rows; ++i) {
    T* g = update.G + i * update.stride;
    row_times_columns(g, update.cols, update.Vt, update.c, w);
    for (std::int64_t j = 0; j < update.cols; ++j) {
      double change = 0;
      for (std::int64_t c = 0; c < update.c; ++c) {
        const double weight = static_cast<double>(w[c]) * static_cast<double>(update.coefficient[c]);
        change += weight * static_cast<double>(update.Vt[c * padded(update.cols) + j]);
      }
      g[j] = static_cast<T>(static_cast<double>(g[j]) - change);
    }
    norm_squared += sum_of_squares(g, update.cols);
  }
  return norm_squared;
}

template <class T>
void cross_gram_rows(const T* A, std::int64_t ka, const T* B, std::int64_t kb, std::int64_t n, std::int64_t lda,
                     double* K) {
  for (std::int64_t a = 0; a < ka; ++a) {
    for (std::int64_t b = 0; b < kb; ++b) K[a * kb + b] = dot(A + a * lda, B + b * lda, n);
  }
}

template <class T>
void gram_rows(const T* A, std::int64_t k, std::int64_t n, std::int64_t lda, double* K) {
  cross_gram_rows(A, k, A, k, n, lda, K);
}

// The padding of A is zero, and so becomes that of out.
template <class T>
void combine_rows(const double* M, std::int64_t r, std::int64_t k, std::int64_t ldm, const T* A, std::int64_t n,
                  std::int64_t lda, T* out) {
  for (std::int64_t i = 0; i < r; ++i) {
    for (std::int64_t j = 0; j < padded(n); ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < k; ++c) sum += M[i * ldm + c] * static_cast<double>(A[c * lda + j]);
      out[i * lda + j] = static_cast<T>(sum);
    }
  }
}

template <class T>
void add_inplace(T* y, const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

template <class Half>
void convert(const Half* from, float* to, std::int64_t n) {
  std::transform(from, from + n, to, [](Half x) { return to_float(x); });
}
inline void convert(const float* from, BFloat16* to, std::int64_t n) {
  std::transform(from, from + n, to, [](float x) { return to_bfloat16(x); });
}
inline void convert(const float* from, Float16* to, std::int64_t n) {
  std::transform(from, from + n, to, [](float x) { return to_float16(x); });
}

}  // namespace spectralclip::kernels::reference

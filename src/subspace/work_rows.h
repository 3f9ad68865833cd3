// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix in the work type: the matrix itself where storage and work type agree, else a block of converted
// rows that stays in cache. No converted copy of the whole matrix is ever made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/fused_pass.h"
#include "kernels/scalar_convert.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

[[nodiscard]] inline bool needs_conversion(ScalarType type) noexcept { return size_of(type) == 2; }

// What passes read and write: the rows of a window, or (mirrored) its columns as if they were rows, so that a rank that
// holds some columns of a matrix works on rows of its transpose; times a power of two.
struct Rows {
  AnyMatrix G;
  bool mirrored = false;
  double scale = 1;

  Rows() = default;
  Rows(const AnyMatrix& G_, bool mirrored_ = false, double scale_ = 1)  // NOLINT(google-explicit-constructor)
      : G(G_), mirrored(mirrored_), scale(scale_) {}
  [[nodiscard]] std::int64_t rows() const noexcept { return mirrored ? G.cols : G.rows; }
  [[nodiscard]] std::int64_t cols() const noexcept { return mirrored ? G.rows : G.cols; }
  [[nodiscard]] ScalarType type() const noexcept { return G.type; }
  [[nodiscard]] bool as_stored() const noexcept { return !mirrored && scale == 1; }
};

// Numbers of the work type that over_rows needs as `converted`.
[[nodiscard]] inline std::int64_t conversion_entries(const Rows& G) noexcept {
  if (G.as_stored() && !needs_conversion(G.type())) return 0;
  const std::int64_t bytes = G.type() == ScalarType::float64 ? 8 : 4;
  return kernels::block_rows(G.cols() * bytes) * kernels::padded(G.cols());
}

template <class Half>
void widen_rows(const MatrixView<Half>& G, std::int64_t first, std::int64_t rows, float* block) {
  for (std::int64_t i = 0; i < rows; ++i)
    kernels::convert(G.row(first + i), block + i * kernels::padded(G.cols), G.cols);
}
template <class Half>
void narrow_rows(const MatrixView<Half>& G, std::int64_t first, std::int64_t rows, const float* block) {
  for (std::int64_t i = 0; i < rows; ++i)
    kernels::convert(block + i * kernels::padded(G.cols), G.row(first + i), G.cols);
}

template <class Half, bool kWrite, class Run>
double over_converted_rows(const MatrixView<Half>& G, std::int64_t first, std::int64_t rows, float* converted,
                           const Run& run) {
  const std::int64_t block = kernels::block_rows(G.cols * 4);
  double sum = 0;
  for (std::int64_t i = 0; i < rows; i += block) {
    const std::int64_t count = std::min(block, rows - i);
    widen_rows(G, first + i, count, converted);
    sum += run(converted, count, kernels::padded(G.cols));
    if constexpr (kWrite) narrow_rows(G, first + i, count, converted);
  }
  return sum;
}

namespace detail {
inline double to_work(double x) { return x; }
inline float to_work(float x) { return x; }
inline float to_work(BFloat16 x) { return kernels::to_float(x); }
inline float to_work(Float16 x) { return kernels::to_float(x); }
inline void to_storage(double x, double& out) { out = x; }
inline void to_storage(float x, float& out) { out = x; }
inline void to_storage(float x, BFloat16& out) { out = kernels::to_bfloat16(x); }
inline void to_storage(float x, Float16& out) { out = kernels::to_float16(x); }

// visit(entry of storage, its place in the block) for `count` rows from `first`; storage is walked in its own order.
template <class S, class Visit>
void visit_block(const Rows& G, std::int64_t first, std::int64_t count, const Visit& visit) {
  const MatrixView<S> stored = G.G.as<S>();
  const std::int64_t ld = kernels::padded(G.cols());
  if (G.mirrored) {
    for (std::int64_t j = 0; j < G.cols(); ++j) {
      S* const run = stored.row(j) + first;
      for (std::int64_t i = 0; i < count; ++i) visit(run[i], i * ld + j);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      S* const run = stored.row(first + i);
      for (std::int64_t j = 0; j < G.cols(); ++j) visit(run[j], i * ld + j);
    }
  }
}
}  // namespace detail

// Blocks of rows that are not stored as they are worked on.
template <class T, class S, bool kWrite, class Run>
double over_copied_rows(const Rows& G, std::int64_t first, std::int64_t rows, T* block, const Run& run) {
  const std::int64_t height = kernels::block_rows(G.cols() * static_cast<std::int64_t>(sizeof(T)));
  const T scale = static_cast<T>(G.scale), unscale = static_cast<T>(1 / G.scale);
  double sum = 0;
  for (std::int64_t i = 0; i < rows; i += height) {
    const std::int64_t count = std::min(height, rows - i);
    detail::visit_block<S>(G, first + i, count,
                           [&](const S& x, std::int64_t at) { block[at] = detail::to_work(x) * scale; });
    sum += run(block, count, kernels::padded(G.cols()));
    if constexpr (kWrite) {
      detail::visit_block<S>(G, first + i, count,
                             [&](S& x, std::int64_t at) { detail::to_storage(block[at] * unscale, x); });
    }
  }
  return sum;
}

// run(T* rows, count, stride) -> double over rows [first, first + rows); the sum of what it returns. kWrite: the rows
// are changed by run and go back to storage.
template <class T, bool kWrite, class Run>
double over_rows(const Rows& G, std::int64_t first, std::int64_t rows, T* converted, const Run& run) {
  if constexpr (sizeof(T) == 4) {
    if (G.type() == ScalarType::bfloat16) {
      return G.as_stored() ? over_converted_rows<BFloat16, kWrite>(G.G.as<BFloat16>(), first, rows, converted, run)
                           : over_copied_rows<T, BFloat16, kWrite>(G, first, rows, converted, run);
    }
    if (G.type() == ScalarType::float16) {
      return G.as_stored() ? over_converted_rows<Float16, kWrite>(G.G.as<Float16>(), first, rows, converted, run)
                           : over_copied_rows<T, Float16, kWrite>(G, first, rows, converted, run);
    }
  }
  if (!G.as_stored()) return over_copied_rows<T, T, kWrite>(G, first, rows, converted, run);
  return run(G.G.as<T>().row(first), rows, G.G.row_stride);
}

}  // namespace spectralclip

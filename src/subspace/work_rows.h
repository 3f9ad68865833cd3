// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix in the work type: the matrix itself where storage and work type agree, else a block of converted
// rows that stays in cache. No converted copy of the whole matrix is ever made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/fused_pass.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

[[nodiscard]] inline bool needs_conversion(ScalarType type) noexcept { return size_of(type) == 2; }

// Floats that over_rows needs as `converted`.
[[nodiscard]] inline std::int64_t conversion_entries(const AnyMatrix& G) noexcept {
  return needs_conversion(G.type) ? kernels::block_rows(G.cols * 4) * kernels::padded(G.cols) : 0;
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

// run(T* rows, count, stride) -> double over rows [first, first + rows); the sum of what it returns. kWrite: the rows
// are changed by run and go back to storage.
template <class T, bool kWrite, class Run>
double over_rows(const AnyMatrix& G, std::int64_t first, std::int64_t rows, T* converted, const Run& run) {
  if constexpr (sizeof(T) == 4) {
    if (G.type == ScalarType::bfloat16) {
      return over_converted_rows<BFloat16, kWrite>(G.as<BFloat16>(), first, rows, converted, run);
    }
    if (G.type == ScalarType::float16) {
      return over_converted_rows<Float16, kWrite>(G.as<Float16>(), first, rows, converted, run);
    }
  }
  return run(G.as<T>().row(first), rows, G.row_stride);
}

}  // namespace spectralclip

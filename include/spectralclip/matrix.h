// SPDX-License-Identifier: Apache-2.0
// A borrowed matrix: row-major, any row stride, four storage types. Owning nothing, copying nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "spectralclip/export.h"

namespace spectralclip {

// Storage-only 16-bit floats; arithmetic is done in float32 after conversion (kernels/convert.h).
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

enum class ScalarType : std::uint8_t { float32 = 0, float64 = 1, bfloat16 = 2, float16 = 3 };

[[nodiscard]] constexpr std::int64_t size_of(ScalarType type) noexcept {
  return type == ScalarType::float64 ? 8 : type == ScalarType::float32 ? 4 : 2;
}
[[nodiscard]] SPECTRALCLIP_EXPORT const char* to_string(ScalarType type) noexcept;

// Entries lie at multiples of their size.
[[nodiscard]] inline bool is_aligned(const void* data, ScalarType type) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(type)) == 0;
}

template <class T>
inline constexpr ScalarType kScalarTypeOf = std::is_same_v<T, double>     ? ScalarType::float64
                                            : std::is_same_v<T, BFloat16> ? ScalarType::bfloat16
                                            : std::is_same_v<T, Float16>  ? ScalarType::float16
                                                                          : ScalarType::float32;

// rows x cols entries; entry (i, j) is data[i * row_stride + j]. row_stride >= cols, counted in entries.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;

  MatrixView() = default;
  MatrixView(T* data_, std::int64_t rows_, std::int64_t cols_) : MatrixView(data_, rows_, cols_, cols_) {}
  MatrixView(T* data_, std::int64_t rows_, std::int64_t cols_, std::int64_t row_stride_)
      : data(data_), rows(rows_), cols(cols_), row_stride(row_stride_) {}

  [[nodiscard]] T* row(std::int64_t i) const { return data + i * row_stride; }
  [[nodiscard]] T& operator()(std::int64_t i, std::int64_t j) const { return data[i * row_stride + j]; }
};

// The same window with its storage type carried as a value: what the clipper and the C interface see.
struct AnyMatrix {
  void* data = nullptr;
  ScalarType type = ScalarType::float32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;

  AnyMatrix() = default;
  AnyMatrix(void* data_, ScalarType type_, std::int64_t rows_, std::int64_t cols_, std::int64_t row_stride_)
      : data(data_), type(type_), rows(rows_), cols(cols_), row_stride(row_stride_) {}
  template <class T>
  AnyMatrix(MatrixView<T> view)  // NOLINT(google-explicit-constructor): a view is an AnyMatrix
      : AnyMatrix(view.data, kScalarTypeOf<T>, view.rows, view.cols, view.row_stride) {}

  template <class T>
  [[nodiscard]] MatrixView<T> as() const {
    return {static_cast<T*>(data), rows, cols, row_stride};
  }
  [[nodiscard]] std::int64_t entries() const noexcept { return rows * cols; }
};

// Throws InvalidArgument unless the window is usable: non-null, aligned to its entries, at least 1 x 1, row_stride >=
// cols, no overflow.
SPECTRALCLIP_EXPORT void validate(const AnyMatrix& G);

}  // namespace spectralclip

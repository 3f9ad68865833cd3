// SPDX-License-Identifier: Apache-2.0
// A strided tensor as matrices, by its sizes and strides alone: no data is looked at, so it holds for fake tensors too.
// The order of columns (and of rows) does not matter to singular values, so any order in memory will do as long as it
// is dense: channels_last convolutions need no copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace spectralclip::torch {

// `count` matrices of rows x cols, row_stride apart inside a matrix and rows * row_stride from matrix to matrix.
struct Window {
  std::int64_t count = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t row_stride = 1;
};

// How a rule reads the axes (rules.h).
struct Axes {
  int batch = 0;
  int row = 1;
};

// The window of a tensor whose strides allow one; otherwise a working copy has to serve.
[[nodiscard]] std::optional<Window> window_of(const at::Tensor& tensor, const Axes& axes);
// The window of a contiguous tensor of that shape.
[[nodiscard]] Window packed_window(at::IntArrayRef sizes, const Axes& axes);

// The window's matrices as tensors that share the tensor's memory.
[[nodiscard]] std::vector<at::Tensor> matrices_of(const at::Tensor& tensor, const Window& window);

}  // namespace spectralclip::torch

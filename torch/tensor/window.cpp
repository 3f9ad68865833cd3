// SPDX-License-Identifier: Apache-2.0
#include "tensor/window.h"

#include <algorithm>

namespace spectralclip::torch {
namespace {

struct Axis {
  std::int64_t size;
  std::int64_t stride;
};

// The axes [first, last) that matter: of one entry, a stride means nothing.
std::vector<Axis> axes_between(const at::Tensor& tensor, std::int64_t first, std::int64_t last) {
  std::vector<Axis> axes;
  for (std::int64_t i = first; i < last; ++i) {
    if (tensor.size(i) != 1) axes.push_back({tensor.size(i), tensor.stride(i)});
  }
  return axes;
}

// True when the axes, walked in this order from the innermost, step through memory `stride` at a time without a gap.
bool walks(const std::vector<Axis>& axes, std::int64_t stride) {
  for (const Axis& axis : axes) {
    if (axis.stride != stride) return false;
    stride *= axis.size;
  }
  return true;
}

void order_by_stride(std::vector<Axis>& axes) {
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
}

std::int64_t product(at::IntArrayRef sizes) {
  std::int64_t entries = 1;
  for (const std::int64_t size : sizes) entries *= size;
  return entries;
}

}  // namespace

// As matricize() of the core: no axis left for columns means vectors, which become 1 x n rows. A scalar is 1 x 1.
Window packed_window(at::IntArrayRef sizes, const Axes& axes) {
  if (sizes.empty()) return {};
  const auto batch = static_cast<std::size_t>(axes.batch);
  const auto rows_end = batch + static_cast<std::size_t>(axes.row);
  Window window;
  window.count = product(sizes.slice(0, batch));
  window.rows = product(sizes.slice(batch, rows_end - batch));
  window.cols = product(sizes.slice(rows_end));
  if (rows_end == sizes.size()) std::swap(window.rows, window.cols);
  window.row_stride = window.cols;
  return window;
}

std::optional<Window> window_of(const at::Tensor& tensor, const Axes& axes) {
  Window window = packed_window(tensor.sizes(), axes);
  if (tensor.is_contiguous()) return window;
  const std::int64_t dims = tensor.dim();
  const std::int64_t rows_end = axes.batch + axes.row;
  const bool vectors = rows_end == dims;
  std::vector<Axis> columns = axes_between(tensor, vectors ? axes.batch : rows_end, dims);
  std::vector<Axis> rows = vectors ? std::vector<Axis>{} : axes_between(tensor, axes.batch, rows_end);
  std::vector<Axis> batch = axes_between(tensor, 0, axes.batch);
  order_by_stride(columns);
  order_by_stride(rows);
  std::reverse(batch.begin(), batch.end());  // each matrix has a state of its own: their order must stay
  if (!walks(columns, 1)) return std::nullopt;
  if (!rows.empty()) window.row_stride = rows.front().stride;
  if (window.row_stride < window.cols || !walks(rows, window.row_stride)) return std::nullopt;
  if (!walks(batch, window.rows * window.row_stride)) return std::nullopt;
  return window;
}

std::vector<at::Tensor> matrices_of(const at::Tensor& tensor, const Window& window) {
  std::vector<at::Tensor> matrices;
  const std::int64_t apart = window.rows * window.row_stride;
  for (std::int64_t i = 0; i < window.count; ++i) {
    matrices.push_back(
        tensor.as_strided({window.rows, window.cols}, {window.row_stride, 1}, tensor.storage_offset() + i * apart));
  }
  return matrices;
}

}  // namespace spectralclip::torch

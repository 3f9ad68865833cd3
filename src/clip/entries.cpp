// SPDX-License-Identifier: Apache-2.0
#include "clip/entries.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/convert.h"
#include "kernels/norm.h"
#include "subspace/slabs.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kMaxSlabs = 32;  // as slabs.h
constexpr std::int64_t kPiece = 1024;   // entries converted at a time: 4 KiB on the stack

Slabs slabs_of(const AnyMatrix& G) { return make_slabs(G.rows, G.cols, 0); }

// Rows without gaps are one run.
template <class T, class Run>
void over_runs(const MatrixView<T>& G, std::int64_t first, std::int64_t rows, const Run& run) {
  if (G.row_stride == G.cols) {
    run(G.row(first), rows * G.cols);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) run(G.row(first + i), G.cols);
}

// run(float* piece, n) over a 16-bit run; written back when kWrite.
template <bool kWrite, class Half, class Run>
void over_pieces(Half* x, std::int64_t n, const Run& run) {
  std::array<float, kPiece> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled before it is read
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    kernels::convert(x + i, piece.data(), count);
    run(piece.data(), count);
    if constexpr (kWrite) kernels::convert(piece.data(), x + i, count);
  }
}

// run(float* or double*, n) over rows [first, first + rows) of any storage type.
template <bool kWrite, class Run>
void visit_rows(const AnyMatrix& G, std::int64_t first, std::int64_t rows, const Run& run) {
  switch (G.type) {
    case ScalarType::float32:
      return over_runs(G.as<float>(), first, rows, run);
    case ScalarType::float64:
      return over_runs(G.as<double>(), first, rows, run);
    case ScalarType::bfloat16:
      return over_runs(G.as<BFloat16>(), first, rows,
                       [&](BFloat16* x, std::int64_t n) { over_pieces<kWrite>(x, n, run); });
    case ScalarType::float16:
      return over_runs(G.as<Float16>(), first, rows,
                       [&](Float16* x, std::int64_t n) { over_pieces<kWrite>(x, n, run); });
  }
}

// Sum of squares of entries divided by `scale`, term by term in double: slow, for matrices whose squares overflow.
double careful_sum(const AnyMatrix& G, double scale) {
  double sum = 0;
  visit_rows<false>(G, 0, G.rows, [&](const auto* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double y = static_cast<double>(x[i]) / scale;
      sum += y * y;
    }
  });
  return sum;
}

}  // namespace

double max_abs_entry(const AnyMatrix& G) {
  double largest = 0;
  double poison = 0;
  visit_rows<false>(G, 0, G.rows, [&](const auto* x, std::int64_t n) {
    const double piece = kernels::max_abs(x, n);
    poison += piece * 0;
    largest = std::max(largest, piece);
  });
  return poison == 0 ? largest : std::numeric_limits<double>::quiet_NaN();
}

void fill_zero(const AnyMatrix& G) {
  const std::int64_t size = size_of(G.type);
  for (std::int64_t i = 0; i < G.rows; ++i) {
    std::memset(static_cast<std::byte*>(G.data) + i * G.row_stride * size, 0, static_cast<std::size_t>(G.cols * size));
  }
}

double sum_of_squares(const AnyMatrix& G, Executor& executor) {
  const Slabs slabs = slabs_of(G);
  std::array<double, kMaxSlabs> sums{};
  auto task = [&](std::int64_t slab) {
    double sum = 0;
    visit_rows<false>(G, slabs.begin(slab), slabs.size(slab),
                      [&](const auto* x, std::int64_t n) { sum += kernels::sum_of_squares(x, n); });
    sums[static_cast<std::size_t>(slab)] = sum;
  };
  executor.run(slabs.count, task);
  double total = 0;
  for (std::int64_t slab = 0; slab < slabs.count; ++slab) total += sums[static_cast<std::size_t>(slab)];
  constexpr double kTiny = 1e-24;  // below it squares of float32 entries vanish
  if (std::isfinite(total) && total > kTiny) return total;
  const double largest = max_abs_entry(G);
  if (!(largest > 0)) return largest;  // zero or NaN
  const double scale = std::exp2(std::floor(std::log2(largest)));
  return careful_sum(G, scale) * scale * scale;
}

void scale_entries(const AnyMatrix& G, double factor, Executor& executor) {
  const Slabs slabs = slabs_of(G);
  auto task = [&](std::int64_t slab) {
    visit_rows<true>(G, slabs.begin(slab), slabs.size(slab), [&](auto* x, std::int64_t n) {
      kernels::scale_inplace(x, n, static_cast<std::remove_pointer_t<decltype(x)>>(factor));
    });
  };
  executor.run(slabs.count, task);
}

}  // namespace spectralclip

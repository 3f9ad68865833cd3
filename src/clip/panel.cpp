// SPDX-License-Identifier: Apache-2.0
// Scalar loops: the factorisations that follow cost min(m, n) times as much.
#include "clip/panel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/scalar_convert.h"

namespace spectralclip {
namespace {

// Calls body with a value of the storage type.
template <class Body>
void with_storage(ScalarType type, Body&& body) {
  switch (type) {
    case ScalarType::float32:
      return body(float{});
    case ScalarType::float64:
      return body(double{});
    case ScalarType::bfloat16:
      return body(BFloat16{});
    case ScalarType::float16:
      return body(Float16{});
  }
}

double load(double x) { return x; }
double load(float x) { return static_cast<double>(x); }
double load(BFloat16 x) { return static_cast<double>(kernels::to_float(x)); }
double load(Float16 x) { return static_cast<double>(kernels::to_float(x)); }

constexpr float kLargestBFloat16 = 0x1.fep127F;
constexpr float kLargestFloat16 = 65504.0F;

double saturated(double x, double largest) { return std::clamp(x, -largest, largest); }

// float64 -> float32 with the last bit set when inexact ("round to odd"), so that rounding once more to 16 bits equals
// rounding the float64 directly (Boldo & Melquiond 2008).
float to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || (std::bit_cast<std::uint32_t>(nearest) & 1U) != 0) return nearest;
  constexpr float kFar = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, back < x ? kFar : -kFar);
}

void store(double x, double& to) { to = saturated(x, std::numeric_limits<double>::max()); }
void store(double x, float& to) { to = static_cast<float>(saturated(x, std::numeric_limits<float>::max())); }
void store(double x, BFloat16& to) { to = kernels::to_bfloat16(to_odd(saturated(x, kLargestBFloat16))); }
void store(double x, Float16& to) { to = kernels::to_float16(to_odd(saturated(x, kLargestFloat16))); }

template <class T>
void read_into(const MatrixView<T>& G, const Window& w, double scale, Panel& panel) {
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const T* from = G.row(w.row + i) + w.col;
    double* to = panel.data() + i * w.cols;
    for (std::int64_t j = 0; j < w.cols; ++j) to[j] = load(from[j]) * scale;
  }
}

template <class T>
void write_from(const MatrixView<T>& G, const Window& w, double unscale, const Panel& panel) {
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const double* from = panel.data() + i * w.cols;
    T* to = G.row(w.row + i) + w.col;
    for (std::int64_t j = 0; j < w.cols; ++j) store(from[j] * unscale, to[j]);
  }
}

// NaN is caught by 0 * x, which is not 0 for NaN and Inf.
template <class T>
void measure_into(const MatrixView<T>& G, Magnitude& size) {
  double poison = 0;
  for (std::int64_t i = 0; i < G.rows; ++i) {
    const T* row = G.row(i);
    for (std::int64_t j = 0; j < G.cols; ++j) {
      const double x = load(row[j]);
      poison += 0.0 * x;
      size.largest = std::max(size.largest, std::abs(x));
    }
  }
  size.finite = poison == 0;
}

Window whole_window(const AnyMatrix& G) { return {0, 0, G.rows, G.cols}; }

}  // namespace

Magnitude measure_magnitude(const AnyMatrix& G) {
  Magnitude size;
  with_storage(G.type, [&]<class T>(T) { measure_into(G.as<T>(), size); });
  if (!size.finite || size.largest == 0) return size;
  // Within +-1000, so that scale and unscale are normal numbers; what is left of 1e308 or 5e-324 then squares safely.
  const int exponent = std::clamp(std::ilogb(size.largest) + 1, -1000, 1000);
  size.scale = std::ldexp(1.0, -exponent);
  size.unscale = std::ldexp(1.0, exponent);
  return size;
}

void resize_panel(Panel& panel, Eigen::Index rows, Eigen::Index cols) {
  if (panel.rows() == rows && panel.cols() == cols) return;
  panel.resize(0, 0);
  panel.resize(rows, cols);
}

void read_panel(const AnyMatrix& G, const Window& window, double scale, Panel& panel) {
  resize_panel(panel, window.rows, window.cols);
  with_storage(G.type, [&]<class T>(T) { read_into(G.as<T>(), window, scale, panel); });
}

void write_panel(const AnyMatrix& G, const Window& window, double unscale, const Panel& panel) {
  with_storage(G.type, [&]<class T>(T) { write_from(G.as<T>(), window, unscale, panel); });
}

Panel read_all(const AnyMatrix& G, double scale) {
  Panel whole;
  read_panel(G, whole_window(G), scale, whole);
  return whole;
}

void write_all(const AnyMatrix& G, double unscale, const Panel& whole) {
  write_panel(G, whole_window(G), unscale, whole);
}

Undo::Undo(const AnyMatrix& G) : G_(G) {
  if (std::max(G.rows, G.cols) <= kPanelWidth) return;
  const auto row = static_cast<std::size_t>(G.cols * size_of(G.type));
  const auto stride = static_cast<std::size_t>(G.row_stride * size_of(G.type));
  stored_.resize(row * static_cast<std::size_t>(G.rows));
  const auto* const from = static_cast<const std::byte*>(G.data);
  for (std::size_t i = 0; i < static_cast<std::size_t>(G.rows); ++i)
    std::memcpy(stored_.data() + i * row, from + i * stride, row);
}

Undo::~Undo() {
  const auto row = static_cast<std::size_t>(G_.cols * size_of(G_.type));
  const auto stride = static_cast<std::size_t>(G_.row_stride * size_of(G_.type));
  auto* const to = static_cast<std::byte*>(G_.data);
  for (std::size_t i = 0; i * row < stored_.size(); ++i) std::memcpy(to + i * stride, stored_.data() + i * row, row);
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// Memory for kernel tests: 64-byte aligned entries between two guards, and matrices whose gaps between the rows are
// NaN, so that a kernel that reads or writes where it must not is caught by its result or by the guards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/fused_pass.h"

namespace spectralclip::kernels {

template <class T>
class Guarded {
 public:
  // offset: entries by which data() is off its 64-byte alignment.
  explicit Guarded(std::int64_t n, T value = T{}, std::int64_t offset = 0)
      : n_(n), bytes_((static_cast<std::size_t>(n + offset) * sizeof(T)) + 3 * kGuard, kMark) {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    const std::size_t lead = (kGuard - start % kGuard) % kGuard + kGuard + static_cast<std::size_t>(offset) * sizeof(T);
    data_ = reinterpret_cast<T*>(bytes_.data() + lead);
    std::fill(data_, data_ + n, value);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] T& operator[](std::int64_t i) { return data_[i]; }
  [[nodiscard]] std::int64_t size() const { return n_; }
  [[nodiscard]] bool intact() const {
    const auto* first = reinterpret_cast<const unsigned char*>(data_);
    const auto* last = reinterpret_cast<const unsigned char*>(data_ + n_);
    const auto marked = [](unsigned char byte) { return byte == kMark; };
    return std::all_of(bytes_.data(), first, marked) && std::all_of(last, bytes_.data() + bytes_.size(), marked);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xa5;
  std::int64_t n_;
  std::vector<unsigned char> bytes_;
  T* data_;
};

// Where entries come from. integers: so small that every sum below is exact in T whatever its order; then kernel and
// twin must agree to the last bit. reals: normal, for the error bounds.
enum class Entries : std::uint8_t { integers, reals };

template <class T>
class Source {
 public:
  Source(Entries entries, unsigned seed) : entries_(entries), random_(seed) {}
  T operator()() {
    if (entries_ == Entries::reals) return static_cast<T>(normal_(random_));
    return static_cast<T>(static_cast<int>(random_() % 3) - 1);
  }

 private:
  Entries entries_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

// rows x cols at a row stride, NaN between the rows.
template <class T>
struct Strided {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  Guarded<T> memory;

  Strided(std::int64_t rows_, std::int64_t cols_, std::int64_t gap, std::int64_t offset, Source<T> source)
      : rows(rows_),
        cols(cols_),
        stride(cols_ + gap),
        memory(rows_ * (cols_ + gap), std::numeric_limits<T>::quiet_NaN(), offset) {
    for (std::int64_t i = 0; i < rows; ++i) std::generate_n(row(i), cols, [&] { return source(); });
  }
  [[nodiscard]] T* row(std::int64_t i) { return memory.data() + i * stride; }
  [[nodiscard]] bool gaps_intact() {
    for (std::int64_t i = 0; i < rows; ++i) {
      if (!std::all_of(row(i) + cols, row(i) + stride, [](T x) { return std::isnan(x); })) return false;
    }
    return memory.intact();
  }
  void copy_from(Strided& other) {
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(other.row(i), cols, row(i));
  }
  void make_absolute() {
    for (std::int64_t i = 0; i < rows; ++i)
      std::transform(row(i), row(i) + cols, row(i), [](T x) { return std::abs(x); });
  }
};

// k rows of n entries, zero-padded: what Vt and Zt look like.
template <class T>
void fill_padded(Guarded<T>& A, std::int64_t k, std::int64_t n, Source<T> source) {
  for (std::int64_t c = 0; c < k; ++c) {
    std::fill_n(A.data() + c * padded(n), padded(n), T{0});
    std::generate_n(A.data() + c * padded(n), n, [&] { return source(); });
  }
}

template <class T>
[[nodiscard]] bool padding_is_zero(Guarded<T>& A, std::int64_t k, std::int64_t n) {
  for (std::int64_t c = 0; c < k; ++c) {
    T* row = A.data() + c * padded(n);
    if (!std::all_of(row + n, row + padded(n), [](T x) { return x == T{0}; })) return false;
  }
  return A.intact();
}

// |found - expected| <= factor * eps * size, entry by entry; a NaN in either fails.
template <class T, class Number>
void expect_within(Guarded<Number>& found, Guarded<Number>& expected, Guarded<Number>& size, double factor,
                   const char* what) {
  const double unit = factor * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::int64_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    const double limit = unit * static_cast<double>(size[i]);
    ASSERT_TRUE(error <= limit) << what << "[" << i << "] = " << found[i] << ", expected " << expected[i] << " within "
                                << limit;
  }
}

}  // namespace spectralclip::kernels

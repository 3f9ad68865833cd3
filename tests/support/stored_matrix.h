// SPDX-License-Identifier: Apache-2.0
// A matrix in any storage type with a padded row stride, filled from float64 and read back; the padding and a row
// behind the end carry a pattern that nobody may touch.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/scalar_convert.h"
#include "spectralclip/matrix.h"

namespace spectralclip::testing {

class StoredMatrix {
 public:
  StoredMatrix(ScalarType type, const Eigen::MatrixXd& values, std::int64_t padding = 3)
      : type_(type), rows_(values.rows()), cols_(values.cols()), stride_(values.cols() + padding) {
    bytes_.assign(static_cast<std::size_t>((rows_ + 1) * stride_ * size_of(type)), kPattern);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) put(at(i, j), values(i, j));
    }
  }

  [[nodiscard]] AnyMatrix view() { return {bytes_.data(), type_, rows_, cols_, stride_}; }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

  [[nodiscard]] Eigen::MatrixXd values() const {
    Eigen::MatrixXd result(rows_, cols_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) result(i, j) = get(at(i, j));
    }
    return result;
  }

  [[nodiscard]] bool padding_intact() const {
    for (std::int64_t i = 0; i <= rows_; ++i) {
      for (std::size_t b = at(i, i < rows_ ? cols_ : 0); b < at(i + 1, 0); ++b) {
        if (bytes_[b] != kPattern) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint8_t kPattern = 0xa5;

  [[nodiscard]] std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((i * stride_ + j) * size_of(type_));
  }
  template <class T>
  void copy_in(std::size_t at, T x) {
    std::memcpy(bytes_.data() + at, &x, sizeof x);
  }
  template <class T>
  [[nodiscard]] T copy_out(std::size_t at) const {
    T x;
    std::memcpy(&x, bytes_.data() + at, sizeof x);
    return x;
  }
  void put(std::size_t at, double x) {
    const auto narrow = static_cast<float>(x);
    if (type_ == ScalarType::float64) copy_in(at, x);
    if (type_ == ScalarType::float32) copy_in(at, narrow);
    if (type_ == ScalarType::bfloat16) copy_in(at, kernels::to_bfloat16(narrow));
    if (type_ == ScalarType::float16) copy_in(at, kernels::to_float16(narrow));
  }
  [[nodiscard]] double get(std::size_t at) const {
    if (type_ == ScalarType::float64) return copy_out<double>(at);
    if (type_ == ScalarType::float32) return static_cast<double>(copy_out<float>(at));
    if (type_ == ScalarType::bfloat16) return static_cast<double>(kernels::to_float(copy_out<BFloat16>(at)));
    return static_cast<double>(kernels::to_float(copy_out<Float16>(at)));
  }

  ScalarType type_;
  std::int64_t rows_, cols_, stride_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// A few parameters of mixed shapes and storage types with gradients that depend on (seed, step) only: noise on a slowly
// turning direction, and a large rank-one spike in every third step, so that some steps clip and some do not.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/scalar_convert.h"
#include "spectralclip/clipper.h"

namespace spectralclip::testing {

inline constexpr std::uint8_t kPadding = 0xa5;  // bytes between rows; finite and recognisable in every type

class ToyModel {
 public:
  struct Tensor {
    Parameter parameter;
    ScalarType type = ScalarType::float32;
    std::int64_t row_length = 1;
    std::int64_t row_stride = 1;
    std::vector<std::uint8_t> bytes;

    [[nodiscard]] std::int64_t rows() const {
      return static_cast<std::int64_t>(bytes.size()) / size_of(type) / row_stride;
    }
    void set(std::int64_t row, std::int64_t col, double value) {
      std::uint8_t* const at = bytes.data() + (row * row_stride + col) * size_of(type);
      const auto single = static_cast<float>(value);
      const BFloat16 brain = kernels::to_bfloat16(single);
      const Float16 half = kernels::to_float16(single);
      if (type == ScalarType::float64) std::memcpy(at, &value, sizeof value);
      if (type == ScalarType::float32) std::memcpy(at, &single, sizeof single);
      if (type == ScalarType::bfloat16) std::memcpy(at, &brain, sizeof brain);
      if (type == ScalarType::float16) std::memcpy(at, &half, sizeof half);
    }
  };

  // `row_axes_end` axes are rows (batch included), the rest is one row; `padding` entries follow each row.
  void add(std::string name, std::vector<std::int64_t> shape, ScalarType type = ScalarType::float32,
           std::size_t row_axes_end = 1, std::int64_t padding = 0) {
    Tensor tensor;
    const auto product = [](auto first, auto last) {
      return std::accumulate(first, last, std::int64_t{1}, [](std::int64_t a, std::int64_t b) { return a * b; });
    };
    const auto split = shape.begin() + static_cast<std::ptrdiff_t>(row_axes_end);
    const std::int64_t rows = product(shape.begin(), split);
    tensor.row_length = product(split, shape.end());
    tensor.row_stride = tensor.row_length + padding;
    tensor.type = type;
    tensor.bytes.assign(static_cast<std::size_t>(rows * tensor.row_stride * size_of(type)), kPadding);
    tensor.parameter = {std::move(name), std::move(shape)};
    tensors.push_back(std::move(tensor));
  }

  [[nodiscard]] std::vector<Parameter> parameters() const {
    std::vector<Parameter> result;
    for (const Tensor& tensor : tensors) result.push_back(tensor.parameter);
    return result;
  }

  [[nodiscard]] std::vector<Gradient> gradients() {
    std::vector<Gradient> result;
    for (Tensor& tensor : tensors) result.push_back({tensor.bytes.data(), tensor.type, tensor.row_stride});
    return result;
  }

  void fill(int step, unsigned seed = 1) {
    unsigned index = 0;
    for (Tensor& tensor : tensors) fill(tensor, step, seed + 1000U * ++index);
  }

  [[nodiscard]] std::vector<std::uint8_t> all_bytes() const {
    std::vector<std::uint8_t> result;
    for (const Tensor& tensor : tensors) result.insert(result.end(), tensor.bytes.begin(), tensor.bytes.end());
    return result;
  }

  std::vector<Tensor> tensors;

 private:
  static void fill(Tensor& tensor, int step, unsigned seed) {
    std::mt19937 engine(seed * 7919U + static_cast<unsigned>(step));
    std::normal_distribution<double> normal;
    const double spike = step % 3 == 2 ? 8.0 : 0.0;
    for (std::int64_t i = 0; i < tensor.rows(); ++i)
      for (std::int64_t j = 0; j < tensor.row_length; ++j) {
        const double turn = 0.05 * step;
        const auto x = static_cast<double>(i);
        const auto y = static_cast<double>(j);
        const double drift = std::sin(x + turn) * std::cos(0.7 * y + turn);
        const double rank_one = spike * std::cos(1.3 * x + step) * std::sin(2.1 * y + 3.0 * step);
        tensor.set(i, j, 0.1 * normal(engine) + drift + rank_one);
      }
  }
};

// Every treatment, every storage type, a batch, a convolution, odd sizes, a padded stride; "wte" is skipped by rule.
// The first kSearched weights have shapes for which `gram` costs several times a search, so that the defaults search
// there; the others go to `gram`.
inline constexpr std::size_t kSearched = 5;
inline ToyModel make_mixed_model() {
  ToyModel model;
  model.add("attn.weight", {72, 61});
  model.add("mlp.weight", {56, 90}, ScalarType::float32, 1, 3);
  model.add("half.weight", {64, 56}, ScalarType::bfloat16);
  model.add("float16.weight", {55, 80}, ScalarType::float16);
  model.add("double.weight", {70, 52}, ScalarType::float64);
  model.add("conv.weight", {8, 3, 3, 3});
  model.add("experts", {3, 10, 14}, ScalarType::float32, 2);
  model.add("norm.bias", {37}, ScalarType::float32, 0);
  model.add("wte.weight", {50, 8});
  model.add("one", {1, 1});
  return model;
}

inline ClipperOptions mixed_options() {
  ClipperOptions options;
  Rule experts;
  experts.name_pattern = experts.label = "experts";
  experts.batch_axes = 1;
  options.rules.push_back(experts);
  return options;
}

}  // namespace spectralclip::testing

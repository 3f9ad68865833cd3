// SPDX-License-Identifier: Apache-2.0
// L matrices of equal shape and what clipping asks of them: products from both sides, norms, a low-rank subtraction.
// Small matrices are stacked once and multiplied together; a large one is multiplied where it is, into its slice of the
// result, so that no float32 or float64 matrix is ever copied. 16-bit matrices are widened one by one.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace spectralclip::torch::aten {

class MatrixBatch {
 public:
  explicit MatrixBatch(const std::vector<at::Tensor>& matrices);

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(matrices_.size()); }
  [[nodiscard]] std::int64_t rows() const { return matrices_[0].size(0); }
  [[nodiscard]] std::int64_t cols() const { return matrices_[0].size(1); }
  [[nodiscard]] std::int64_t smaller_side() const { return std::min(rows(), cols()); }
  [[nodiscard]] at::ScalarType storage() const { return matrices_[0].scalar_type(); }
  [[nodiscard]] at::ScalarType work() const;
  [[nodiscard]] const std::vector<at::Tensor>& matrices() const { return matrices_; }

  [[nodiscard]] at::Tensor times(const at::Tensor& V) const;             // G V: L x m x k, from L x n x k (work type)
  [[nodiscard]] at::Tensor transposed_times(const at::Tensor& W) const;  // G^T W: L x n x k, from L x m x k
  [[nodiscard]] at::Tensor norms() const;                                // Frobenius, L, float64; as frobenius_norms

  // G <- G - P Y^T where `changed` (L, bool). P: L x m x c, Y: L x n x c (work type), both zero elsewhere: bits stay.
  void subtract(const at::Tensor& P, const at::Tensor& Y, const at::Tensor& changed) const;

 private:
  [[nodiscard]] at::Tensor working(std::int64_t i) const;  // m x n in the work type

  std::vector<at::Tensor> matrices_;
  at::Tensor stack_;  // L x m x n in the work type, when small; stale once something was written
};

// Frobenius norms of tensors of any shapes, in float64: squares of float32 are summed without overflow, those of
// float64 are scaled first. NaN exactly where an entry is not finite, infinity where the norm is out of range.
[[nodiscard]] at::Tensor frobenius_norms(const std::vector<at::Tensor>& tensors);

}  // namespace spectralclip::torch::aten

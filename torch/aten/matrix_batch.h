// SPDX-License-Identifier: Apache-2.0
// L matrices of one type and device, of similar shapes, and what clipping asks of them: a pass, norms, a low-rank
// subtraction. Skinny factors of all of them lie in one tensor, as rows, padded with zeros to the longest side, so that
// what is done with them is one operator whatever the shapes. Small matrices of equal shape are stacked once a step and
// multiplied together; others are multiplied where they are, into their own part of the result: no float32 or float64
// matrix is ever copied. 16-bit matrices are widened one by one.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace spectralclip::torch::aten {

// k rows for every matrix, in the work type, and the parts of them that belong to each: made once, used in every step.
class SkinnyRows {
 public:
  SkinnyRows() = default;
  SkinnyRows(const std::vector<at::Tensor>& matrices, std::int64_t k);

  at::Tensor V;  // L x k x n: rows to multiply by, orthonormal or nearly
  at::Tensor W;  // L x k x m: (G V^T)^T
  at::Tensor Z;  // L x k x n: W G
  struct Part {
    at::Tensor Vt, Wt;  // n x k, m x k
    at::Tensor W, Z;    // k x m, k x n
  };
  std::vector<Part> parts;
};

// What is above this many entries is multiplied where it is.
inline constexpr std::int64_t kStackedEntries = std::int64_t{1} << 16;

class MatrixBatch {
 public:
  explicit MatrixBatch(const std::vector<at::Tensor>& matrices);

  [[nodiscard]] at::ScalarType storage() const { return matrices_[0].scalar_type(); }
  [[nodiscard]] at::ScalarType work() const;

  // rows.W and rows.Z from rows.V: 4 m n k flops a matrix. Consecutive uses of a matrix follow each other, so that the
  // second one comes from cache. With norms also L Frobenius norms in float64, from squares in the work type.
  void pass(const SkinnyRows& rows) const;
  [[nodiscard]] at::Tensor pass_with_norms(const SkinnyRows& rows) const;

  // G <- G - (G V^T) Z with rows.V and rows.Z, where `changed` (L, bool); both are zero elsewhere: bits stay.
  void subtract(const SkinnyRows& rows, const at::Tensor& changed) const;

 private:
  using Chunk = std::pair<std::size_t, std::size_t>;  // matrices that a device's cache holds together

  [[nodiscard]] at::Tensor working(std::size_t i) const { return matrices_[i].to(work()); }
  void multiply(const SkinnyRows& rows, const Chunk& chunk) const;

  std::vector<at::Tensor> matrices_;
  std::vector<Chunk> chunks_;
  at::Tensor stack_;  // L x m x n in the work type, when small; stale once something was written
};

// Frobenius norms of tensors of any shapes, in float64: squares of float32 are summed without overflow, those of
// float64 are scaled first. NaN exactly where an entry is not finite, infinity where the norm is out of range.
[[nodiscard]] at::Tensor frobenius_norms(const std::vector<at::Tensor>& tensors);

}  // namespace spectralclip::torch::aten

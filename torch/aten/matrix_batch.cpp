// SPDX-License-Identifier: Apache-2.0
#include "aten/matrix_batch.h"

#include <algorithm>

#include "aten/storage.h"
#include "constants.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// What a device's cache holds of a chunk of matrices between two uses of it.
constexpr std::int64_t kCachedBytes = std::int64_t{24} << 20;

Tensor norms_of(const std::vector<Tensor>& tensors, double order) {
  return at::stack(at::_foreach_norm(tensors, order, at::kDouble));
}

Tensor scaled_norms(const std::vector<Tensor>& tensors) {
  const Tensor largest = norms_of(tensors, kInfinity);
  const Tensor scale = power_of_two_above(largest);
  const Tensor inverse = scale.reciprocal();
  std::vector<Tensor> norms;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    norms.push_back(at::linalg_vector_norm(tensors[i] * inverse.select(0, static_cast<std::int64_t>(i)), 2));
  }
  return at::where(largest.isfinite(), at::stack(norms) * scale, kNaN);
}

}  // namespace

Tensor frobenius_norms(const std::vector<Tensor>& tensors) {
  const bool wide =
      std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.scalar_type() == at::kDouble; });
  if (wide) return scaled_norms(tensors);
  const Tensor norms = norms_of(tensors, 2);
  return at::where(norms.isfinite(), norms, kNaN);
}

SkinnyRows::SkinnyRows(const std::vector<Tensor>& matrices, std::int64_t k) {
  const auto L = static_cast<std::int64_t>(matrices.size());
  std::int64_t m = 0, n = 0;
  for (const Tensor& G : matrices) {
    m = std::max(m, G.size(0));
    n = std::max(n, G.size(1));
  }
  const auto options = matrices[0].options().dtype(work_type(matrices[0].scalar_type()));
  V = at::zeros({L, k, n}, options);
  W = at::zeros({L, k, m}, options);
  Z = at::zeros({L, k, n}, options);
  for (std::int64_t i = 0; i < L; ++i) {
    const Tensor& G = matrices[static_cast<std::size_t>(i)];
    const auto part = [i](const Tensor& all, std::int64_t length) { return all.select(0, i).slice(1, 0, length); };
    const Tensor w = part(W, G.size(0));
    parts.push_back({part(V, G.size(1)).t(), w.t(), w, part(Z, G.size(1))});
  }
}

MatrixBatch::MatrixBatch(const std::vector<Tensor>& matrices) : matrices_(matrices) {
  const bool equal = std::all_of(matrices_.begin(), matrices_.end(),
                                 [&](const Tensor& G) { return G.sizes() == matrices_[0].sizes(); });
  if (equal && matrices_[0].numel() < kStackedEntries) stack_ = at::stack(matrices_).to(work());
  std::int64_t bytes = kCachedBytes;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const std::int64_t own = matrices_[i].numel() * matrices_[i].element_size();
    if (bytes + own > kCachedBytes) {
      chunks_.emplace_back(i, i);
      bytes = 0;
    }
    chunks_.back().second = i + 1;
    bytes += own;
  }
}

at::ScalarType MatrixBatch::work() const { return work_type(storage()); }

// Rows times rows: both operands and both results run along the long side.
void MatrixBatch::multiply(const SkinnyRows& rows, const Chunk& chunk) const {
  for (std::size_t i = chunk.first; i < chunk.second; ++i) {
    SkinnyRows::Part part = rows.parts[i];
    const Tensor G = working(i);
    at::mm_out(part.Wt, G, part.Vt);
    at::mm_out(part.Z, part.W, G);
  }
}

void MatrixBatch::pass(const SkinnyRows& rows) const {
  if (stack_.defined()) {
    Tensor W = rows.W, Z = rows.Z;
    at::bmm_out(W, rows.V, stack_.transpose(1, 2));
    at::bmm_out(Z, rows.W, stack_);
    return;
  }
  for (const Chunk& chunk : chunks_) multiply(rows, chunk);
}

Tensor MatrixBatch::pass_with_norms(const SkinnyRows& rows) const {
  if (stack_.defined()) {
    pass(rows);
    return at::linalg_vector_norm(stack_, 2, {1, 2}).to(at::kDouble);
  }
  std::vector<Tensor> norms;
  for (const Chunk& chunk : chunks_) {
    const auto begin = matrices_.begin() + static_cast<std::ptrdiff_t>(chunk.first);
    const std::vector<Tensor> own(begin, begin + static_cast<std::ptrdiff_t>(chunk.second - chunk.first));
    const std::vector<Tensor> found = at::_foreach_norm(own, 2, work());
    norms.insert(norms.end(), found.begin(), found.end());
    multiply(rows, chunk);
  }
  return at::stack(norms).to(at::kDouble);
}

// Zeros times zeros subtracted leave x as it is to the bit, -0 included. What is not finite makes W so, which is
// masked. 16-bit storage goes through float32 and back, which would lose the payload of a NaN: there a mask decides.
void MatrixBatch::subtract(const SkinnyRows& rows, const Tensor& changed) const {
  Tensor W = rows.W;
  if (stack_.defined()) {
    at::bmm_out(W, rows.V, stack_.transpose(1, 2));
  } else {
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      Tensor own = rows.parts[i].Wt;
      at::mm_out(own, working(i), rows.parts[i].Vt);
    }
  }
  W.masked_fill_(changed.logical_not().view({-1, 1, 1}), 0.0);
  Tensor stacked;
  if (stack_.defined()) stacked = at::bmm(W.transpose(1, 2), rows.Z);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    Tensor G = matrices_[i];
    const SkinnyRows::Part& part = rows.parts[i];
    const auto place = static_cast<std::int64_t>(i);
    if (storage() != work()) {
      const Tensor D = stacked.defined() ? stacked.select(0, place) : at::mm(part.Wt, part.Z);
      at::where_out(G, changed.select(0, place), at::sub(G, D).to(storage()), G);
    } else if (stacked.defined()) {
      G.sub_(stacked.select(0, place));
    } else {
      G.addmm_(part.Wt, part.Z, 1, -1);
    }
  }
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "aten/matrix_batch.h"

#include <algorithm>

#include "aten/storage.h"
#include "constants.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// Below this many entries a product costs less than starting it, and a copy less than both.
constexpr std::int64_t kStackedEntries = std::int64_t{1} << 16;

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

MatrixBatch::MatrixBatch(const std::vector<Tensor>& matrices) : matrices_(matrices) {
  if (rows() * cols() < kStackedEntries) stack_ = at::stack(matrices_).to(work());
}

at::ScalarType MatrixBatch::work() const { return work_type(storage()); }

Tensor MatrixBatch::working(std::int64_t i) const { return matrices_[static_cast<std::size_t>(i)].to(work()); }

Tensor MatrixBatch::times(const Tensor& V) const {
  if (stack_.defined()) return at::bmm(stack_, V);
  Tensor W = at::empty({count(), rows(), V.size(2)}, V.options());
  for (std::int64_t i = 0; i < count(); ++i) {
    Tensor slice = W.select(0, i);
    at::mm_out(slice, working(i), V.select(0, i));
  }
  return W;
}

Tensor MatrixBatch::transposed_times(const Tensor& W) const {
  if (stack_.defined()) return at::bmm(stack_.transpose(1, 2), W);
  Tensor Z = at::empty({count(), cols(), W.size(2)}, W.options());
  for (std::int64_t i = 0; i < count(); ++i) {
    Tensor slice = Z.select(0, i);
    at::mm_out(slice, working(i).t(), W.select(0, i));
  }
  return Z;
}

Tensor MatrixBatch::norms() const { return frobenius_norms(matrices_); }

// x - (+0) is x to the bit, -0 and NaN included, and a product of +0 and +0 is +0 however it is summed. 16-bit storage
// goes through float32 and back, which would lose the payload of a NaN: there a mask decides.
void MatrixBatch::subtract(const Tensor& P, const Tensor& Y, const Tensor& changed) const {
  const bool narrow = storage() != work();
  Tensor stacked;
  if (stack_.defined()) stacked = at::bmm(P, Y.transpose(1, 2));
  for (std::int64_t i = 0; i < count(); ++i) {
    Tensor G = matrices_[static_cast<std::size_t>(i)];
    const Tensor D = stacked.defined() ? stacked.select(0, i) : at::mm(P.select(0, i), Y.select(0, i).t());
    if (narrow) {
      at::where_out(G, changed.select(0, i), at::sub(G, D).to(storage()), G);
    } else {
      G.sub_(D);
    }
  }
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "aten/ritz.h"

#include "aten/storage.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// (H^T H Omega)^T (H^T H Omega) for H = (I - Q_p Q_p^T) G, Q_p spanning G times the first k - f columns: with
// H^T H Omega = (Z_f - Z_p S_pp^-1 S_pf) T_f^T no difference of squares is taken.
Tensor probe_fresh_columns(const Products& products, const Tensor& S, const Tensor& inverse, const Tensor& factor) {
  const std::int64_t f = factor.size(1);
  const std::int64_t p = S.size(1) - f;
  const Tensor inverse_p = inverse.slice(1, 0, p).slice(2, 0, p);
  const Tensor shared = at::bmm(inverse_p.transpose(1, 2), at::bmm(inverse_p, S.slice(1, 0, p).slice(2, p)));
  const Tensor outside = products.Z.slice(2, p) - at::bmm(products.Z.slice(2, 0, p), shared);
  const Tensor unseen = at::bmm(outside, factor.transpose(1, 2));  // n x f
  return largest_eigenvalue_bound(at::bmm(unseen.transpose(1, 2), unseen));
}

// inside: V^T Y. |y - V V^T y|: taken as a vector, so good to the rounding with which V was stored.
Tensor sines(const Tensor& V, const Tensor& Y, const Tensor& inside) {
  return at::linalg_vector_norm(Y - at::bmm(V, inside), 2, {1}).clamp_max_(1);
}

}  // namespace

// Within 2^-100 and 2^100 the scaled columns stay normal numbers of float32; entries beyond that are served as well,
// W and Z being off one by 1e8 and 1e16 at most.
ScaledBatch measure(const MatrixBatch& matrices) {
  const Tensor norm = matrices.norms();
  const double limit = matrices.work() == at::kDouble ? 0x1p500 : 0x1p100;
  return {matrices, norm, at::isfinite(norm), power_of_two_above(norm).reciprocal_().clamp_(1 / limit, limit)};
}

Products run_pass(const ScaledBatch& batch, const Tensor& V) {
  const Tensor scale = batch.scale.view({-1, 1, 1});
  const Tensor finite = batch.finite.view({-1, 1, 1});
  const at::ScalarType work = batch.matrices.work();
  const Tensor W = at::where(finite, batch.matrices.times((V * scale).to(work)), 0.0);
  const Tensor Z = at::where(finite, batch.matrices.transposed_times(W * scale.to(work)), 0.0);
  return {V, W.to(at::kDouble), Z.to(at::kDouble)};
}

Ritz solve_ritz(const Products& products, const Tensor& fresh_factor, double drop, std::int64_t sweeps) {
  const Tensor S = at::bmm(products.W.transpose(1, 2), products.W);
  const InverseCholesky cholesky = inverse_cholesky(S, drop);
  const Tensor& inverse = cholesky.inverse;
  const Tensor Bt = at::bmm(products.Z, inverse.transpose(1, 2));  // n x k: B^T
  const Eigenpairs eigen = symmetric_eigen(at::bmm(Bt.transpose(1, 2), Bt), sweeps);

  Ritz ritz;
  ritz.sigma = eigen.values.clamp_min(0).sqrt_();
  const Tensor inverse_sigma = at::where(ritz.sigma > 0, ritz.sigma.reciprocal(), 0.0);
  ritz.Y = at::bmm(Bt, eigen.vectors) * inverse_sigma.unsqueeze(1);
  const Tensor inside = at::bmm(products.V.transpose(1, 2), ritz.Y);
  ritz.sine = sines(products.V, ritz.Y, inside);
  ritz.independent = cholesky.independent.sum(1).to(at::kDouble);
  ritz.weakest = cholesky.weakest;
  if (fresh_factor.defined()) ritz.probe = probe_fresh_columns(products, S, inverse, fresh_factor);
  return ritz;
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "aten/small_factors.h"

#include <limits>
#include <vector>

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

Tensor halves(const Tensor& upper_left, const Tensor& upper_right, const Tensor& lower_left,
              const Tensor& lower_right) {
  return at::cat({at::cat({upper_left, upper_right}, 2), at::cat({lower_left, lower_right}, 2)}, 1);
}

// Pairs are (i, h + i), h = k/2. After a round index 0 stays and the others move on by one around the table of pairs:
// every index meets every other once in k - 1 rounds.
Tensor round_robin(std::int64_t k, const at::TensorOptions& options) {
  const std::int64_t h = k / 2;
  const Tensor index = at::arange(k, options);
  if (h == 1) return index;
  return at::cat({index.slice(0, 0, 1), index.slice(0, h, h + 1), index.slice(0, 1, h - 1), index.slice(0, h + 1, k),
                  index.slice(0, h - 1, h)});
}

// k x k^2: row i holds what cos_i contributes to the rotation [[cos, sin], [-sin, cos]], row h + i what sin_i does; the
// columns of the rotation are already in the order of the next round.
Tensor rotation_pattern(std::int64_t k, const at::TensorOptions& options) {
  const Tensor unit = at::diag_embed(at::eye(k / 2, options));  // h x h x h: unit[i] = e_i e_i^T
  const Tensor zero = at::zeros_like(unit);
  const Tensor pattern = at::cat({halves(unit, zero, zero, unit), halves(zero, unit, unit.neg(), zero)});
  return pattern.index_select(2, round_robin(k, options.dtype(at::kLong))).reshape({k, k * k});
}

// Rotations that zero A(i, h + i): L x k, cosines and then sines. tan 2 theta = 2 a_pq / (a_qq - a_pp), |theta| <=
// pi/4. Entries that are rounding beside their own diagonal count as zero: between equal eigenvalues they would turn
// the vectors at random, and the last sweeps would converge no faster than the first.
Tensor rotations(const Tensor& A, std::int64_t h) {
  constexpr double kNegligible = 8 * std::numeric_limits<double>::epsilon();
  const Tensor diagonal = A.diagonal(0, 1, 2);
  const Tensor off = A.diagonal(h, 1, 2);
  const Tensor p = diagonal.slice(1, 0, h);
  const Tensor q = diagonal.slice(1, h);
  const Tensor counts = at::addcmul(off.square(), p, q, -kNegligible * kNegligible) > 0;
  const Tensor ratio = at::nan_to_num(off * counts / (q - p), 0.0);  // 0/0: nothing to rotate
  const Tensor theta = ratio.mul_(2).atan_().mul_(0.5);
  return at::cat({theta.cos(), theta.sin()}, 1);
}

// A with an even side: one more row and column, zero but for an eigenvalue below all of A's.
Tensor padded_to_even(const Tensor& A) {
  if (A.size(1) % 2 == 0) return A;
  Tensor padded = at::constant_pad_nd(A, {0, 1, 0, 1});
  padded.select(1, -1).select(1, -1).copy_(at::linalg_vector_norm(A, 2, {1, 2}).neg_().sub_(1));
  return padded;
}

}  // namespace

InverseCholesky inverse_cholesky(const Tensor& A, double drop) {
  const std::int64_t k = A.size(1);
  const Tensor floor = A.diagonal(0, 1, 2) * drop;
  Tensor rest = at::cat({A, at::eye(k, A.options()).expand_as(A)}, 2);  // Schur complement | what was done to I
  std::vector<Tensor> rows;
  for (std::int64_t j = 0; j < k; ++j) {
    const Tensor row_j = rest.select(1, j);
    const Tensor pivot = row_j.select(1, j);
    const Tensor root = at::where(pivot > floor.select(1, j), pivot.rsqrt(), 0.0);
    const Tensor row = row_j * root.unsqueeze(1);
    rest.baddbmm_(row.slice(1, 0, k).unsqueeze(2), row.unsqueeze(1), 1, -1);
    rows.push_back(row.slice(1, k));
  }
  const Tensor inverse = at::stack(rows, 1);
  const Tensor independent = inverse.diagonal(0, 1, 2) > 0;
  const Tensor amplified = at::bmm(inverse.square(), A.diagonal(0, 1, 2).unsqueeze(2)).amax(1).squeeze(1);
  return {inverse, independent, amplified.clamp_min(1).reciprocal_()};
}

Orthonormal orthonormalize(const Tensor& X, double drop) {
  Orthonormal result;
  result.gram = at::bmm(X.transpose(1, 2), X);
  result.factor = inverse_cholesky(result.gram, drop);
  result.Q = at::bmm(X, result.factor.inverse.transpose(1, 2));
  return result;
}

// A J and J^T (A J) as plain products keep the relative accuracy of small eigenvalues of graded matrices: with
// a_pq^2 <= a_pp a_qq every term that is added to a small diagonal entry is of its size.
Eigenpairs symmetric_eigen(const Tensor& symmetric, std::int64_t sweeps) {
  Tensor A = padded_to_even(symmetric);
  const std::int64_t wanted = symmetric.size(1);
  const std::int64_t k = A.size(1);
  const std::int64_t L = A.size(0);
  Tensor X = at::eye(k, A.options()).expand_as(A);
  const Tensor pattern = rotation_pattern(k, A.options());
  for (std::int64_t round = 0; round < sweeps * (k - 1); ++round) {
    const Tensor J = at::mm(rotations(A, k / 2), pattern).view({L, k, k});
    A = at::bmm(J.transpose(1, 2), at::bmm(A, J));
    X = at::bmm(X, J);
  }
  const auto [values, order] = at::sort(A.diagonal(0, 1, 2), /*stable=*/true, 1, /*descending=*/true);
  const Tensor vectors = X.gather(2, order.unsqueeze(1).expand_as(X));
  // Zeros beside the padding stay zero, so its eigenvector is e_k to the bit and goes with the last value.
  return {values.slice(1, 0, wanted), vectors.slice(1, 0, wanted).slice(2, 0, wanted)};
}

// tr(K^p)^(1/p) with p = 64 by six squarings, each divided by its trace.
Tensor largest_eigenvalue_bound(const Tensor& K) {
  constexpr int kSquarings = 6;
  Tensor B = K;
  Tensor logarithm = at::zeros({K.size(0)}, K.options());
  double share = 1;
  for (int i = 0; i <= kSquarings; ++i, share /= 2) {
    const Tensor trace = B.diagonal(0, 1, 2).sum(1);
    logarithm = logarithm + at::log(trace) * share;
    if (i == kSquarings) break;
    const Tensor unit = B / at::where(trace > 0, trace, 1.0).view({-1, 1, 1});
    B = at::bmm(unit, unit);
  }
  return at::exp(logarithm);
}

}  // namespace spectralclip::torch::aten

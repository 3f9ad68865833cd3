// SPDX-License-Identifier: Apache-2.0
#include "aten/findings.h"

#include <cmath>
#include <limits>

#include "aten/storage.h"
#include "subspace/certificate.h"
#include "subspace/search.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

double work_epsilon_of(const SkinnyRows& rows) {
  return rows.V.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
}

Tensor trace_of(const Tensor& A) { return A.diagonal(0, 1, 2).sum(1); }
Tensor times_transposed(const Tensor& A, const Tensor& B) { return at::bmm(A, B.transpose(1, 2)); }
double ridge_of(double epsilon) { return 8 * epsilon; }

// The fresh rows are the last f: (H^T H Omega)^T (H^T H Omega) for the H of the rows before them, f x f, from the
// trailing blocks of the factor (no difference of squares), in a k x k matrix of zeros.
Tensor probed(const Projection& p) {
  const std::int64_t f = kFreshColumns, k = p.A.size(1);
  const auto trailing = [&](const Tensor& X) { return X.slice(1, k - f).slice(2, k - f); };
  const Tensor X = trailing(p.factor.lower) * p.factor.root.slice(1, k - f).unsqueeze(2);
  return at::constant_pad_nd(times_transposed(at::bmm(X, trailing(p.A)), X), {0, k - f, 0, k - f});
}

}  // namespace

Tensor identity_of(const SkinnyRows& rows, const SubspaceWork& work) {
  const std::int64_t k = rows.V.size(1);
  return k == work.identity.size(0) ? work.identity : work.identity.slice(0, 0, k).slice(1, 0, k);
}

Projection project(const SkinnyRows& rows, const SubspaceWork& work) {
  Projection p;
  const Tensor W = rows.W.to(at::kDouble);
  p.factor = ridge_cholesky(times_transposed(W, W), ridge_of(work_epsilon_of(rows)), identity_of(rows, work));
  p.B = at::bmm(p.factor.inverse, rows.Z.to(at::kDouble));
  p.A = times_transposed(p.B, p.B);
  p.trace = trace_of(p.A);
  p.gain = at::linalg_vector_norm(p.factor.inverse * p.factor.root.unsqueeze(1), 2, {2}).amax(1);
  return p;
}

// Row i of B belongs to row i of V: a share of that, of the size of the rounding of B, decides where B holds nothing
// else.
Tensor next_rows(const Projection& projection, const SkinnyRows& rows, const SubspaceWork& work, std::int64_t count,
                 int steps) {
  const Tensor rounding = at::sqrt(projection.trace) * projection.gain * (32 * work_epsilon_of(rows));
  const Tensor share = work.fade.slice(0, 0, rows.V.size(1)) * cube(rounding);
  const Tensor B = at::addcmul(projection.B, rows.V, share);
  const Tensor A = times_transposed(B, B);
  const Tensor X = leading_rows_first(A, trace_of(A), identity_of(rows, work), steps).slice(1, 0, count);
  return at::bmm(X, B);
}

// residual = B (I - P) B^T with P the projector on the span of V.
Unseen look_at_unseen(const Projection& p, const SkinnyRows& rows, const SubspaceWork& work, const Tensor& norm) {
  constexpr double kSpanRidge = 1e-12;
  const double epsilon = work_epsilon_of(rows);
  Unseen unseen;
  const Tensor V = rows.V.to(at::kDouble);
  const Tensor span = std::get<0>(at::linalg_cholesky_ex(at::add(times_transposed(V, V), work.identity, kSpanRidge)));
  const Tensor inside = at::linalg_solve_triangular(span, times_transposed(V, p.B), /*upper=*/false);
  unseen.residual = at::baddbmm(p.A, inside.transpose(1, 2), inside, 1, -1);

  const std::int64_t L = p.A.size(0);
  const LargestEigenvalue largest = largest_eigenvalue(at::cat({p.A, probed(p)}));
  unseen.sigma_max_squared = largest.low.slice(0, 0, L);
  const Tensor probe = at::sqrt(largest.high.slice(0, L) * work.probe).add_(work.unprobed);
  const Tensor energy = norm.square();
  const Tensor left = at::add((energy - p.trace).clamp_min_(0), energy, 16 * epsilon);
  const Tensor spanned = (p.factor.lower.diagonal(0, 1, 2) > 4 * std::sqrt(ridge_of(epsilon))).sum(1);
  unseen.complete = spanned >= work.smaller;
  unseen.certain = at::logical_or(left <= probe, unseen.complete);
  unseen.squared = at::minimum(left, probe).masked_fill_(unseen.complete, 0);
  const double radius_squared = small_ball_radius_squared(kFreshColumns, kEstimateFailure);
  unseen.typical = at::minimum(unseen.squared, probe * std::sqrt(radius_squared / kFreshColumns));
  return unseen;
}

namespace {

// The projector on the eigenvalues of A above level_squared. The sign of A - level^2 is that of
// C = I - 2 level^2 (A + level^2)^-1, whose values lie in (-1, 1) however large a spike is.
Tensor projector_above(const Tensor& A, const Tensor& level_squared, const SubspaceWork& work) {
  const Tensor factor = std::get<0>(at::linalg_cholesky_ex(A / cube(level_squared) + work.identity));
  const Tensor T = at::linalg_solve_triangular(factor, work.identity, /*upper=*/false);
  const Tensor C = at::baddbmm(work.identity, T.transpose(1, 2), T, 1, -2);
  return (matrix_sign(C, work.sign) + work.identity).mul_(0.5);
}

// A on the span of its `rank` leading rows, zero elsewhere.
Tensor restricted(const Projection& p, std::int64_t rank, const SubspaceWork& work) {
  constexpr int kSteps = 12;  // values that differ by 6 % are told apart
  const Tensor X = leading_rows_first(p.A, p.trace, work.identity, kSteps).slice(1, 0, rank);
  const Tensor onto = at::bmm(X.transpose(1, 2), X);
  return at::bmm(onto, at::bmm(p.A, onto));
}

}  // namespace

// A level below 3e-8 of everything would drown in the rounding of A.
Lowering lower_above(const Projection& p, const Tensor& tau, double band, std::int64_t rank, const SubspaceWork& work) {
  constexpr double kKnown = 1e-15;
  Lowering lowering;
  lowering.level_squared = at::maximum((tau * (1 + band)).square_(), p.trace * kKnown);
  Tensor A = p.A;
  Tensor P = projector_above(A, lowering.level_squared, work);
  lowering.count = trace_of(P).round_();
  if (rank > 0) {
    lowering.beyond = lowering.count > static_cast<double>(rank);
    A = at::where(cube(lowering.beyond), restricted(p, rank, work), A);
    P = projector_above(A, lowering.level_squared, work);
    lowering.count = trace_of(P).round_();
  } else {
    lowering.beyond = at::zeros_like(lowering.count, at::kBool);
  }
  lowering.any = lowering.count > 0;
  const Tensor above = at::bmm(P, at::bmm(A / cube(tau.square()), P));
  const Tensor E = inverse_root(above + (work.identity - P), work.root);
  lowering.M = (work.identity - E).masked_fill_(cube(lowering.count == 0), 0);
  lowering.E = work.identity - lowering.M;
  return lowering;
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
// With X = G or G^T (r x N, r <= N), its polar factor U (r x N), H = X U^T = (X X^T)^(1/2) and S = sign(H - level I):
//   min(h, tau) U = X - P (X - tau U),   P = (I + S) / 2,
// P being the projector onto what lies above `level`, the upper end of the dead band. Only two things are iterated, the
// polar factors of X and of H - level I, and neither needs to converge where it is hard:
//   - A singular value s below `lower` (of sigma_max = 1) has a factor f in (0, 1) instead of 1. If s is below the
//   level P
//     is zero there and U is not used; if it is above, then tau < s and tau f instead of tau is wrong by less than
//     `lower`.
//   - A value h closer to the level than `lower` has a sign t in (-1, 1). The result, s - (1 + t)/2 (s - tau), lies
//   between
//     s and tau: wrong by less than the dead band and `lower`.
//   - Rounding E of X turns U by E_ij / (s_i + s_j) between directions i and j. Above tau it enters times tau, hence as
//     E_ij at most. It enters S as E_ij divided by the distance of h_i and h_j across the level, and S is multiplied by
//     that distance. So the result is backward stable up to the number of steps; measured error:
//     2.1 sqrt(N) eps ||X||_F.
// Cost of a polynomial: 4 r^2 N + 2 r^3 for U, 6 r^3 for S; 24 of them for 16- and 32-bit storage, 31 for float64; and
// 25 squarings for sigma_max.
#include "aten/clip_dense.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "aten/matrix_batch.h"
#include "aten/polar.h"
#include "aten/storage.h"
#include "constants.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// Matrices that are done together: 32 MiB of float64 in each of some ten temporaries.
constexpr std::int64_t kChunkEntries = std::int64_t{1} << 22;

// sigma_max = 1: with 1e-12 a matrix of sigma_max / tau = 1e6 ends within a quarter of float32's dead band.
double lower_end(ScalarType storage) { return storage == ScalarType::float64 ? 1e-16 : 1e-12; }

double smallest_of(ScalarType storage) {
  if (storage == ScalarType::float64) return std::numeric_limits<double>::denorm_min();
  if (storage == ScalarType::bfloat16) return 0x1p-133;
  return storage == ScalarType::float16 ? 0x1p-24 : std::numeric_limits<float>::denorm_min();
}

Tensor column(const Tensor& x) { return x.view({-1, 1, 1}); }
Tensor symmetric(const Tensor& A) { return (A + A.transpose(1, 2)) / 2; }
Tensor norms(const Tensor& X) { return at::linalg_vector_norm(X, 2, {1, 2}); }

struct Problem {
  Tensor X;          // l x r x N: scaled, smaller side first
  Tensor scale;      // l: X = scale G
  Tensor finite;     // l, bool
  Tensor norm;       // l: of X
  Tensor sigma_low;  // l: bounds of sigma_max of X, at most 1
  Tensor sigma_high;
};

Problem make_problem(const Tensor& G, const Tensor& norm) {
  Problem p;
  p.finite = at::isfinite(norm);
  const Tensor first = power_of_two_above(norm).reciprocal_();
  const Tensor scaled = at::where(column(p.finite), G.to(at::kDouble) * column(first), 0.0);
  const Tensor oriented = G.size(1) <= G.size(2) ? scaled : scaled.transpose(1, 2);
  const EigenvalueBounds lambda = bound_largest_eigenvalue(at::bmm(oriented, oriented.transpose(1, 2)));
  const Tensor second = power_of_two_above(lambda.high.sqrt()).reciprocal_();
  p.X = oriented * column(second);
  p.scale = first * second;
  p.norm = norms(p.X);
  p.sigma_low = lambda.low.sqrt() * second;
  p.sigma_high = lambda.high.sqrt() * second;
  return p;
}

struct Removal {
  Tensor D;      // l x r x N: what is taken from X; zero where nothing is above the level
  Tensor count;  // l: values above the level
  Tensor level;  // l
};

// tau: l, in the units of X.
Removal find_removal(const Problem& p, const Tensor& tau, ScalarType storage) {
  const std::int64_t r = p.X.size(1);
  const double longer = static_cast<double>(p.X.size(2));
  const std::vector<Quintic> chain = polar_chain(lower_end(storage));
  const Tensor U = polar_factor(p.X, chain);
  const Tensor H = symmetric(at::bmm(p.X, U.transpose(1, 2)));
  // Values below the rounding of X, or where the chain cannot tell them from zero, never count. Beyond 2 everything is
  // below the level and nothing is to be found.
  const Tensor floor = 8 * kEps * std::sqrt(longer) * p.norm + 4 * lower_end(storage);
  const Tensor level = at::maximum(tau * (1 + dead_band(storage)), floor).clamp_max_(2);
  const Tensor identity = at::eye(r, p.X.options());
  const Tensor shifted = (H - column(level) * identity) / column(level.clamp_min(1));
  const Tensor S = symmetric(polar_factor(shifted, chain));
  Removal removal;
  removal.level = level;
  removal.count = (S.diagonal(0, 1, 2).sum(1) + static_cast<double>(r)).div_(2).round_();
  removal.count = at::where(p.finite, removal.count, 0.0);
  const Tensor D = at::bmm((identity + S) / 2, p.X - column(tau.clamp_max(2)) * U);
  removal.D = at::where(column(removal.count > 0), D, 0.0);
  return removal;
}

void write(const std::vector<Tensor>& matrices, const Problem& p, const Removal& removal) {
  const bool turned = matrices[0].size(0) > matrices[0].size(1);
  const Tensor oriented = (p.X - removal.D) / column(p.scale);
  const Tensor result = (turned ? oriented.transpose(1, 2) : oriented).to(matrices[0].scalar_type());
  const Tensor changed = removal.count > 0;
  for (std::int64_t i = 0; i < result.size(0); ++i) {
    Tensor G = matrices[static_cast<std::size_t>(i)];
    at::where_out(G, changed.select(0, i), result.select(0, i), G);
  }
}

BatchReport report_of(const Problem& p, const Removal& removal, const Tensor& tau, const Tensor& norm, Method method,
                      ScalarType storage) {
  const Tensor changed = removal.count > 0;
  const Tensor after = norms(p.X - removal.D);
  const Tensor removed = (removal.D * (2 * p.X - removal.D)).sum({1, 2});
  // Backward error of the iterations: measured 2.1 sqrt(N) eps ||X||_F, and the ends of both chains.
  const auto entries = static_cast<double>(p.X.size(1) * p.X.size(2));
  const Tensor error = 8 * kEps * std::sqrt(static_cast<double>(p.X.size(2))) * p.norm + 2 * lower_end(storage);
  BatchReport report;
  report.method = method;
  report.passes = 2;
  report.finite = p.finite;
  report.tau = tau;
  report.sigma_max = p.sigma_low / p.scale;
  report.clipped = removal.count;
  report.norm_before = norm;
  report.norm_after = at::where(changed, after / p.scale, norm);
  report.removed_energy = at::where(changed, removed / p.norm.square(), 0.0).clamp_(0, 1);
  const Tensor stored = storage_epsilon(storage) * report.norm_after + smallest_of(storage) * std::sqrt(entries);
  report.sigma_bound = at::where(changed, (removal.level + error) / p.scale + stored, p.sigma_high / p.scale);
  report.error_estimate = at::where(changed, error / norms(removal.D), 0.0);
  return report;
}

BatchReport clip_chunk(const std::vector<Tensor>& matrices, const Tensor& tau, const Tensor& norm, Method method,
                       bool writes) {
  const ScalarType storage = storage_type(matrices[0].scalar_type());
  const Problem p = make_problem(at::stack(matrices), norm);
  const Removal removal = find_removal(p, tau * p.scale, storage);
  if (writes) write(matrices, p, removal);
  return report_of(p, removal, tau, norm, method, storage);
}

BatchReport joined(const std::vector<BatchReport>& parts) {
  const auto cat = [&](Tensor BatchReport::*field) {
    std::vector<Tensor> tensors;
    for (const BatchReport& part : parts) tensors.push_back(part.*field);
    return at::cat(tensors);
  };
  BatchReport whole = parts[0];
  for (const auto field : {&BatchReport::finite, &BatchReport::tau, &BatchReport::sigma_max, &BatchReport::clipped,
                           &BatchReport::norm_before, &BatchReport::norm_after, &BatchReport::removed_energy,
                           &BatchReport::sigma_bound, &BatchReport::error_estimate}) {
    whole.*field = cat(field);
  }
  return whole;
}

}  // namespace

BatchReport clip_dense(const std::vector<Tensor>& matrices, const Tensor& tau, Method method, bool writes) {
  const Tensor norm = frobenius_norms(matrices);
  const auto count = static_cast<std::int64_t>(matrices.size());
  const std::int64_t together = std::max<std::int64_t>(1, kChunkEntries / matrices[0].numel());
  std::vector<BatchReport> parts;
  for (std::int64_t first = 0; first < count; first += together) {
    const std::int64_t last = std::min(first + together, count);
    const std::vector<Tensor> chunk(matrices.begin() + first, matrices.begin() + last);
    parts.push_back(clip_chunk(chunk, tau.slice(0, first, last), norm.slice(0, first, last), method, writes));
  }
  return parts.size() == 1 ? parts[0] : joined(parts);
}

}  // namespace spectralclip::torch::aten

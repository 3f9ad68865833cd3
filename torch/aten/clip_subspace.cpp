// SPDX-License-Identifier: Apache-2.0
// Passes before the last only turn the columns towards the leading vectors: their Z is orthonormalised, no eigenvalues
// are asked for. The last pass has fresh columns beside them, drawn after the others were known, and gives triplets,
// probe and certificate. Per batch about 1500 small operators, whatever L.
#include "aten/clip_subspace.h"

#include <algorithm>
#include <cmath>

#include "aten/random_columns.h"
#include "aten/ritz.h"
#include "aten/storage.h"
#include "subspace/certificate.h"
#include "subspace/search.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kSketchedRank = 10;  // the paper's r, as in the core
constexpr int kTrackedPasses = 2;
constexpr int kColdPasses = 2;  // more, when the host knows that there is nothing to start from

struct Plan {
  std::int64_t kept = 0;   // vectors carried to the next step
  std::int64_t width = 0;  // columns of the passes before the last
  std::int64_t fresh = 0;  // columns that the last pass has besides
  std::int64_t limit = 0;  // values that may be lowered
  int passes = 0;
  double drop = 0;      // columns of W: as in the core (subspace/search.h)
  double drop_row = 0;  // columns of Z, which only start the next pass: a tenth of a percent of noise does no harm
};

Plan tracked_plan(const MatrixBatch& G, const ClipOptions& options, bool cold) {
  Plan plan;
  plan.kept = options.rank.value_or(kKeptColumns);
  plan.width = plan.kept + kFreshColumns;
  plan.fresh = kFreshColumns;
  plan.passes = kTrackedPasses + (cold ? kColdPasses : 0);
  // When the columns span everything, every value is known and none need be left.
  const bool all = !options.rank && G.smaller_side() <= plan.width + plan.fresh;
  plan.limit = all ? plan.width + plan.fresh : plan.kept;
  return plan;
}

Plan sketched_plan(const MatrixBatch& G, const ClipOptions& options) {
  Plan plan;
  const std::int64_t rank = std::min(options.rank.value_or(kSketchedRank), G.smaller_side());
  plan.width = std::min(rank + options.oversampling, G.smaller_side());
  plan.limit = rank;
  plan.passes = 1 + options.power_passes;
  return plan;
}

Plan make_plan(const MatrixBatch& G, const ClipOptions& options, bool cold) {
  Plan plan = options.method == Method::sketched ? sketched_plan(G, options) : tracked_plan(G, options, cold);
  const bool single = G.work() == at::kFloat;
  plan.drop = single ? 1e-6 : 1e-10;
  plan.drop_row = single ? 1e-8 : 1e-12;
  return plan;
}

// The kept vectors, random columns where there are none, and random columns beside them: L x n x width.
Tensor starting_columns(const Plan& plan, const BatchSubspace& state, std::int64_t n) {
  Tensor columns = random_columns(state.keys, state.steps, 0, n, plan.width);
  if (plan.kept > 0 && state.V.defined()) {
    const Tensor known = at::linalg_vector_norm(state.V, 2, {1}, true) > 0;
    Tensor head = columns.slice(2, 0, plan.kept);
    head.copy_(at::where(known, state.V.to(at::kDouble), head));
  }
  return orthonormalize(columns, plan.drop_row).Q;
}

// Columns of the next pass: Z, orthonormalised. After a spike a thousand times larger than the rest Z holds nothing but
// the spike; the columns that went in then take the places of those that were lost.
Tensor turned_columns(const Plan& plan, const Products& products) {
  const Tensor before = products.V.slice(2, 0, plan.kept > 0 ? plan.kept : plan.width);
  const Orthonormal all = orthonormalize(at::cat({products.Z, before}, 2), plan.drop_row);
  const Tensor order = at::argsort(all.factor.independent.logical_not().to(at::kInt), /*stable=*/true, 1);
  const Tensor first = order.slice(1, 0, plan.width).unsqueeze(1);
  return all.Q.gather(2, first.expand({-1, all.Q.size(1), -1}));
}

struct Columns {
  Tensor V;
  Tensor fresh_factor;  // ritz.h
};

Columns last_columns(const Plan& plan, const BatchSubspace& state, const Tensor& V) {
  if (plan.fresh == 0) return {V, {}};
  const Tensor fresh = random_columns(state.keys, state.steps, 1, V.size(1), plan.fresh);
  const Orthonormal all = orthonormalize(at::cat({V, fresh}, 2), plan.drop_row);
  const Tensor gram_rows = all.gram.slice(1, plan.width);               // A = T T^T, so A T^-T = T
  const Tensor inverse_rows = all.factor.inverse.slice(1, plan.width);  // f x k
  return {all.Q, at::bmm(gram_rows, inverse_rows.transpose(1, 2))};
}

Ritz search(const Plan& plan, const ScaledBatch& batch, const BatchSubspace& state) {
  Tensor V = starting_columns(plan, state, batch.matrices.cols());
  for (int pass = 1; pass < plan.passes; ++pass) V = turned_columns(plan, run_pass(batch, V));
  const Columns last = last_columns(plan, state, V);
  const std::int64_t sweeps = sweeps_for(last.V.size(2), batch.matrices.work());
  return solve_ritz(run_pass(batch, last.V), last.fresh_factor, plan.drop, sweeps);
}

// Everything below is in scaled units, per matrix (L) or per value (L x k).
struct Verdict {
  Tensor tau, level;    // L x 1
  Tensor lowered;       // L x k, bool: which values go to tau
  Tensor count;         // L: how many
  Tensor after;         // L x k: values left inside the subspace
  Tensor complete;      // L, bool: the subspace spans everything
  Tensor removed;       // L: sum of sigma^2 - tau^2
  Tensor norm_squared;  // L: before
  Tensor next;          // L: largest value that may be missing, as a scale for convergence
  Tensor error;         // L: relative error of the removed part
  Tensor beyond;        // L, bool: more values above the level than may be lowered
};

// A scale for convergence: the last value found, or the root mean square of what is unseen;
// directions that only the fresh columns of the last pass hold count as missing.
Tensor next_sigma(const Plan& plan, const Ritz& ritz, const Verdict& verdict, std::int64_t smaller) {
  const Tensor captured = ritz.sigma.square().sum(1);
  const Tensor unseen = (verdict.norm_squared - captured).clamp_min_(0);
  const Tensor left = (static_cast<double>(smaller) - ritz.independent).clamp_min_(1);
  const std::int64_t held = plan.fresh > 0 ? plan.width : plan.width - 1;
  const Tensor place = (ritz.independent - 1).clamp_(0, static_cast<double>(held)).to(at::kLong).unsqueeze(1);
  const Tensor last = ritz.sigma.gather(1, place).squeeze(1);
  return at::where(verdict.complete, 0.0, at::maximum(last, (unseen / left).sqrt_()));
}

// Vector i is off by sine_i rho_i^2, its sigma by sigma_i (sine_i rho_i)^2 / 2, rho_i = next / sigma_i.
Tensor error_of_removed(const Ritz& ritz, const Verdict& verdict) {
  constexpr double kErrorSafety = 2.0;  // measured true / estimated error
  const Tensor rho = verdict.next.unsqueeze(1) / at::where(ritz.sigma > 0, ritz.sigma, 1.0);
  const Tensor excess = at::where(verdict.lowered, ritz.sigma - verdict.tau, 0.0);
  const Tensor turned = ritz.sine * rho * rho * excess;
  const Tensor shortened = at::where(verdict.lowered, 0.5 * ritz.sigma * (ritz.sine * rho).square(), 0.0);
  const Tensor removed = excess.square().sum(1);
  const Tensor error = (turned.square() + shortened.square()).sum(1);
  return at::where(removed > 0, kErrorSafety * (error / removed).sqrt(), 0.0);
}

Verdict judge(const Plan& plan, const ScaledBatch& batch, const Ritz& ritz, const Tensor& tau,
              const ClipOptions& options) {
  const std::int64_t k = ritz.sigma.size(1);
  const std::int64_t smaller = batch.matrices.smaller_side();
  Verdict v;
  v.tau = (tau * batch.scale).unsqueeze(1);
  const double band = dead_band(storage_type(batch.matrices.storage()));
  v.level = v.tau * (1 + std::max(band, options.margin / 4));  // as in the core (clip/subspace_clip.cpp)
  const Tensor place = at::arange(k, tau.options());
  const Tensor above = ritz.sigma > v.level;
  v.lowered = above.logical_and(place < static_cast<double>(plan.limit));
  v.count = v.lowered.sum(1).to(at::kDouble);
  v.after = at::where(v.lowered, v.tau, ritz.sigma);
  v.complete = ritz.independent >= static_cast<double>(smaller);
  v.removed = (ritz.sigma.square() - v.after.square()).sum(1);
  v.norm_squared = at::where(batch.finite, (batch.norm * batch.scale).square(), 0.0);
  v.next = next_sigma(plan, ritz, v, smaller);
  v.error = error_of_removed(ritz, v);
  v.beyond = above.sum(1) > plan.limit;
  return v;
}

// Leading right vectors, orthonormalised in order of sigma (numerics.md, section 2): L x n x count.
Tensor leading_vectors(const Plan& plan, const Ritz& ritz) {
  const std::int64_t count = std::min(std::max(plan.limit, plan.kept), ritz.Y.size(2));
  return orthonormalize(ritz.Y.slice(2, 0, count), plan.drop).Q;
}

// G <- G (I - Y M Y^T), M = 1 - tau / sigma.
void lower_to_tau(const ScaledBatch& batch, const Ritz& ritz, const Verdict& verdict, const Tensor& vectors) {
  const at::ScalarType work = batch.matrices.work();
  const std::int64_t count = vectors.size(2);
  const Tensor lowered = verdict.lowered.slice(1, 0, count).unsqueeze(1);
  const Tensor M = (1 - verdict.tau / ritz.sigma).slice(1, 0, count).unsqueeze(1);
  const Tensor Y = at::where(lowered, vectors, 0.0).to(work);
  const Tensor P = at::where(lowered, batch.matrices.times(Y) * at::where(lowered, M, 0.0).to(work), 0.0);
  batch.matrices.subtract(P, Y, verdict.count > 0);
}

// The core's coupled_eigenvalue (subspace/certificate.h) for L matrices: a, e_squared L x k; b L. Halved until what is
// left of the interval is 1e-6 of the couplings.
Tensor coupled_eigenvalue(const Tensor& a, const Tensor& e_squared, const Tensor& b) {
  constexpr int kHalvings = 20;
  Tensor low = at::maximum(a.amax(1), b);
  Tensor high = low + e_squared.sum(1).sqrt_();
  for (int i = 0; i < kHalvings; ++i) {
    const Tensor x = (low + high) / 2;
    const Tensor enough = (e_squared / (x.unsqueeze(1) - a)).sum(1) <= x - b;
    high = at::where(enough, x, high);
    low = at::where(enough, low, x);
  }
  return high;
}

// Theorems 1 and 2 of docs/numerics.md, as in the core (clip/subspace_clip.cpp: fill_bound), with the rounding of this
// search, whose columns of W may be nearly dependent. One probe was looked at, by nobody who could have read on.
// What is left has the values `after` inside the subspace, at most h outside, and couplings of at most
// sigma_i h sine_i between them, tau^2 / sigma_i h sine_i for those that were lowered.
void fill_certificate(const Plan& plan, const ScaledBatch& batch, const Ritz& ritz, const Verdict& verdict,
                      const ClipOptions& options, BatchReport& report) {
  const ScalarType storage = storage_type(batch.matrices.storage());
  const double rounding = dead_band(storage);
  const double stored = batch.matrices.storage() == batch.matrices.work() ? 0.0 : storage_epsilon(storage);
  const auto columns = static_cast<double>(ritz.sigma.size(1));
  const Tensor sigma_max = ritz.sigma.select(1, 0);
  const Tensor norm_after = report.norm_after * batch.scale;
  const Tensor largest = verdict.after.amax(1);
  const Tensor amplified = rounding * sigma_max * ritz.weakest.rsqrt();
  const Tensor outside = (norm_after.square() - verdict.after.square().sum(1)).clamp_min_(0);
  const Tensor energy = at::where(verdict.complete, 0.0, outside) + rounding * norm_after.square() +
                        columns * (2 * largest + amplified) * amplified;
  Tensor unseen = energy;
  if (ritz.probe.defined()) {
    const double radius_squared = small_ball_radius_squared(plan.fresh, kEstimateFailure);
    const Tensor probe_rounding = rounding * sigma_max * verdict.norm_squared.sqrt();
    const Tensor probe = ((ritz.probe + probe_rounding.square()) / radius_squared).sqrt_();
    report.certain = energy <= probe;
    unseen = at::minimum(energy, probe);
  }
  const Tensor hidden = at::where(verdict.complete, 0.0, unseen);
  const Tensor divisor = at::where(ritz.sigma > 0, ritz.sigma, 1.0);
  const Tensor shrunk = at::where(verdict.lowered, verdict.after.square() / divisor, ritz.sigma);
  const Tensor coupling = (shrunk * ritz.sine).square() * hidden.unsqueeze(1);
  const Tensor known = coupled_eigenvalue(verdict.after.square(), coupling, hidden).sqrt_();
  const Tensor written = at::where(verdict.count > 0, norm_after, 0.0);
  report.sigma_bound = (known + amplified + rounding * norm_after + stored * written) / batch.scale;

  // ok is a promise (report.h): nothing above tau (1 + margin), and the removed part is accurate to three times this.
  const Tensor tau = verdict.tau.squeeze(1);
  const Tensor removed = at::where(verdict.lowered, ritz.sigma - verdict.tau, 0.0).square_().sum(1).sqrt_();
  const Tensor inexact = verdict.error * removed > options.tolerance * removed + options.margin * tau;
  const Tensor full = (verdict.count >= static_cast<double>(plan.limit)).logical_and_(verdict.complete.logical_not());
  const Tensor left = known > tau * (1 + options.margin);
  report.exhausted = full.logical_and(left).logical_or_(verdict.beyond);
  report.unconverged = left.logical_or(inexact);
}

void remember(const Plan& plan, const ScaledBatch& batch, const Tensor& vectors, BatchSubspace& state) {
  Tensor kept = vectors.slice(2, 0, plan.kept).to(batch.matrices.work());
  if (kept.size(2) < plan.kept) kept = at::constant_pad_nd(kept, {0, plan.kept - kept.size(2)});
  const Tensor before = state.V.defined() ? state.V : at::zeros_like(kept);
  state.V = at::where(batch.finite.view({-1, 1, 1}), kept, before);
}

// What does not fit a batch of these shapes starts anew. True: nothing is known of any matrix.
bool prepare(const MatrixBatch& matrices, const Plan& plan, const BatchStream& stream, BatchSubspace& state) {
  const at::Device device = matrices.matrices()[0].device();
  if (!state.keys.defined()) state.keys = stream_keys(stream, device);
  if (!state.steps.defined()) state.steps = at::zeros({matrices.count()}, at::dtype(at::kLong).device(device));
  if (plan.kept == 0) return true;
  if (state.V.defined() && state.V.sizes() != at::IntArrayRef({matrices.count(), matrices.cols(), plan.kept})) {
    state.V = Tensor();
  }
  return !state.V.defined();
}

}  // namespace

BatchReport clip_by_subspace(const MatrixBatch& matrices, const Tensor& tau, const ClipOptions& options,
                             const BatchStream& stream, BatchSubspace& state) {
  const bool cold = prepare(matrices, make_plan(matrices, options, true), stream, state);
  const Plan plan = make_plan(matrices, options, cold);
  const ScaledBatch batch = measure(matrices);
  const Ritz ritz = search(plan, batch, state);
  Verdict verdict = judge(plan, batch, ritz, tau, options);
  const Tensor vectors = leading_vectors(plan, ritz);

  BatchReport report;
  report.method = options.method == Method::sketched ? Method::sketched : Method::tracked;
  report.passes = plan.passes;
  report.columns = ritz.sigma.size(1);
  report.finite = batch.finite;
  report.tau = tau;
  report.sigma_max = ritz.sigma.select(1, 0) / batch.scale;
  report.clipped = verdict.count;
  report.norm_before = batch.norm;
  report.removed_energy = at::where(verdict.norm_squared > 0, verdict.removed / verdict.norm_squared, 0.0).clamp_(0, 1);
  report.error_estimate = verdict.error;
  const Tensor predicted = (verdict.norm_squared - verdict.removed).clamp_min_(0).sqrt_() / batch.scale;
  report.norm_after = at::where(verdict.count > 0, predicted, batch.norm);
  fill_certificate(plan, batch, ritz, verdict, options, report);
  if (!options.observe_only) {
    if (finishes_dense(options)) {  // what did not settle is left to clip_dense as it came
      const Tensor left = report.exhausted.logical_or(report.unconverged);
      verdict.lowered = verdict.lowered.logical_and(left.logical_not().unsqueeze(1));
      verdict.count = at::where(left, 0.0, verdict.count);
    }
    lower_to_tau(batch, ritz, verdict, vectors);
    report.norm_after = at::where(verdict.count > 0, matrices.norms(), report.norm_after);
  }
  if (plan.kept > 0) remember(plan, batch, vectors, state);
  state.steps = state.steps + batch.finite;
  return report;
}

}  // namespace spectralclip::torch::aten

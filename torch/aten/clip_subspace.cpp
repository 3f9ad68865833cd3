// SPDX-License-Identifier: Apache-2.0
// A fixed sequence: rows kept from the last step and fresh random ones, a pass, the rows that it turned them into and
// as many fresh ones again, a second pass, the update. Everything between the passes is one batch whatever the shapes.
#include "aten/clip_subspace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/findings.h"
#include "aten/matrix_batch.h"
#include "aten/random_columns.h"
#include "aten/storage.h"
#include "aten/subspace_work.h"
#include "subspace/search.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kSketchedRank = 10;  // the paper's r, as in the core
constexpr int kPasses = 2;
constexpr int kColdPasses = 2;    // more, when the host knows that there is nothing to start from
constexpr int kStepsBetween = 2;  // of the QR iteration (small_factors.h) between the passes …
constexpr int kStepsToKeep = 3;   // … and where some rows are left behind

Tensor quadratic_trace(const Tensor& A, const Tensor& B) { return (at::bmm(A, B) * A).sum({1, 2}); }  // tr A B A

// What the passes brought, and whether that is enough.
struct Search {
  Projection projection;
  Unseen unseen;
  Tensor norm;      // L: Frobenius
  Tensor finite;    // L, bool: no entry is NaN or infinite
  Tensor in_range;  // L, bool: finite, and squares neither overflow nor vanish
  int passes = 0;
};

// What does not fit a batch of these shapes starts anew. True: nothing is known of any matrix.
bool prepare(const std::vector<Tensor>& matrices, const ClipOptions& options, const BatchStream& stream,
             BatchSubspace& state) {
  const at::Device device = matrices[0].device();
  if (!state.keys.defined()) state.keys = stream_keys(stream, device);
  if (!state.steps.defined()) {
    state.steps = at::zeros({static_cast<std::int64_t>(matrices.size())}, at::dtype(at::kLong).device(device));
  }
  if (!state.work || !state.work->fits(matrices)) state.work = std::make_shared<SubspaceWork>(matrices, options);
  const Tensor& rows = state.work->first.V;
  const bool known = options.method != Method::sketched && state.V.defined() && state.V.size(1) == state.work->kept &&
                     state.V.size(2) == rows.size(2);
  if (!known) state.V = Tensor();
  return !known;
}

// Most values to lower; 0: all that are found.
std::int64_t rank_limit(const ClipOptions& options) {
  return options.method == Method::sketched ? options.rank.value_or(kSketchedRank) : options.rank.value_or(0);
}

void set_rows(const SkinnyRows& rows, const Tensor& values) {
  Tensor V = rows.V;
  V.copy_(values);
}

// Rows of one length, orthonormal or nearly; those that depend on earlier ones are rounding, at most that long.
Tensor orthonormal(const Tensor& rows, const Tensor& identity) {
  constexpr double kRidge = 1e-13;
  return at::bmm(ridge_cholesky(at::bmm(rows, rows.transpose(1, 2)), kRidge, identity).inverse, rows);
}

// Squares of float32 outside [1e-24, 1e30] lose entries, as in the core; zero is zero.
Tensor in_range_of(const Tensor& norm, const Tensor& largest, at::ScalarType work) {
  const double low = work == at::kDouble ? 1e-100 : 1e-12;
  return at::logical_or(largest == 0, norm > low).logical_and_(norm < 1e-9 / (low * low));
}

// Warm: fresh rows, then those kept. A huge spike is then taken by a fresh row, and the others stay what they are.
Search run(const MatrixBatch& G, const BatchSubspace& state, bool cold, const ClipOptions& options) {
  const SubspaceWork& work = *state.work;
  const std::int64_t width = work.first.V.size(1), n = work.first.V.size(2), f = kFreshColumns;
  const Tensor positions = cold ? row_positions(width + f, n, state.keys.device()) : work.positions;
  const Tensor random = random_rows(state.keys, state.steps, positions) * work.spread;
  const Tensor begin = random.slice(1, 0, cold ? width : f), fresh = random.slice(1, cold ? width : f);
  const auto turned = [&](int steps) { return next_rows(project(work.first, work), work.first, work, width, steps); };
  Search s;
  const int most = std::min(options.max_passes, kPasses + kColdPasses);
  s.passes = !cold ? kPasses : options.method == Method::sketched ? 1 + options.power_passes : most;
  set_rows(work.first, cold ? begin : at::cat({begin, state.V}, 1));
  s.norm = G.pass_with_norms(work.first);
  const Tensor largest = at::linalg_vector_norm(work.first.W, std::numeric_limits<double>::infinity(), {1, 2});
  s.finite = largest < std::numeric_limits<double>::infinity();
  for (int pass = kPasses; pass < s.passes; ++pass) {
    set_rows(work.first, orthonormal(turned(kStepsBetween), identity_of(work.first, work)));
    G.pass(work.first);
  }
  set_rows(work.last, orthonormal(at::cat({turned(kStepsBetween), fresh}, 1), work.identity) * work.within);
  G.pass(work.last);
  s.projection = project(work.last, work);
  s.unseen = look_at_unseen(s.projection, work.last, work, s.norm);
  s.in_range = at::logical_and(s.finite, in_range_of(s.norm, largest, G.work()));
  return s;
}

// Theorem 1 of docs/numerics.md with matrices: ||G'|| <= x when x^2 I - A' - h^2 / (x^2 - h^2) J' is positive
// semidefinite. A' = E A E is what is left inside, J' = E^2 J E^2 bounds its couplings to what is unseen. Rounding: of
// Z, grown into B; of the update; of storing.
void certify(const Search& s, const Lowering& lowering, const Tensor& tau, const ClipOptions& options,
             at::ScalarType storage_of, BatchReport& report) {
  constexpr double kRoom = 17.0 / 16;  // where h leaves no room below tau: any x^2 above h^2 gives a bound
  constexpr double kLeastRoom = 1.0 / 64;
  const ScalarType storage = storage_type(storage_of);
  const bool stores = storage_of != work_type(storage_of);
  const Projection& p = s.projection;
  const Tensor& h = s.unseen.squared;
  const Tensor inside = at::bmm(at::bmm(lowering.E, p.A), lowering.E);
  const Tensor square = at::bmm(lowering.E, lowering.E);
  const Tensor coupled = at::bmm(at::bmm(square, s.unseen.residual), square);
  const Tensor removed_squares = p.trace - inside.diagonal(0, 1, 2).sum(1);
  const Tensor energy = s.norm.square();
  report.removed_energy = (removed_squares / energy.clamp_min(1e-290)).clamp_(0, 1);
  const Tensor hidden = (energy - p.trace).clamp_min_(0).masked_fill_(s.unseen.complete, 0);
  report.norm_after = (p.trace - removed_squares).clamp_min_(0).add_(hidden).sqrt_();
  report.sigma_max = s.unseen.sigma_max_squared.sqrt();

  const Tensor amplified = report.sigma_max * p.gain * (4 * work_epsilon(storage));
  const Tensor stored =
      at::add(s.norm * (dead_band(storage) / 4), report.norm_after, stores ? storage_epsilon(storage) : 0);
  const Tensor rounding = at::addcmul(amplified, stored, lowering.any.to(at::kDouble));
  const Tensor goal = (tau * (1 + options.margin)).sub_(rounding).clamp_(0, 1e100).square_();
  const Tensor unlimited = tau == std::numeric_limits<double>::infinity();
  const Tensor room = (goal > h * kRoom).masked_fill_(unlimited, false);
  const Tensor x = at::where(room, goal, h * kRoom);
  const Tensor left = at::addcmul(inside, coupled, cube(h / (x - h).clamp_min_(1e-290)));
  const auto [factor, failed] =
      at::linalg_cholesky_ex(at::diag_embed(x.unsqueeze(1).expand({-1, left.size(1)})) - left);
  const Tensor bounded = at::logical_and(room, failed == 0);
  const Tensor largest = at::maximum(x, at::linalg_vector_norm(left, 2, {1, 2}));
  report.sigma_bound = at::where(bounded, x, largest).sqrt_() + rounding;
  report.certain = s.unseen.certain;

  // Vector i is off by s_i h^2 / (sigma_i^2 - h^2); rounding of B moves it by its size over sigma_i.
  const Tensor& t = s.unseen.typical;
  const Tensor apart = (1 - t / lowering.level_squared).clamp_min_(kLeastRoom);
  const Tensor turned = (2 * quadratic_trace(lowering.M, coupled)).clamp_min_(0).sqrt_() * t / (apart * tau.square());
  const Tensor removed = quadratic_trace(lowering.M, p.A).clamp_min_(0).sqrt_();
  const Tensor error = (turned + amplified).mul_(lowering.any);
  report.error_estimate = error / removed.clamp_min(1e-290);
  const Tensor exact = error <= at::add(tau * (options.margin / 200), removed, options.tolerance);
  const Tensor settled = at::logical_and(bounded, exact).logical_or_(unlimited);
  const std::int64_t room_for = rank_limit(options) > 0 ? rank_limit(options) : followed_rows(options);
  const Tensor full = at::logical_and(lowering.count >= static_cast<double>(room_for), s.unseen.complete.logical_not());
  report.exhausted = full.logical_and_(bounded.logical_not()).logical_or_(lowering.beyond);
  report.unconverged = at::logical_and(settled.logical_and(lowering.beyond.logical_not()).logical_not(), s.finite);
}

// G (I - B^T F B) as G - (G Y^T) (M Y), Y = E B / tau: orthonormal rows above the level. Zero where nothing is lowered.
void lower(const MatrixBatch& G, const Search& s, const Lowering& lowering, const Tensor& tau, const Tensor& changed,
           const SkinnyRows& rows) {
  const Tensor left = cube(changed.logical_not());
  const Tensor Y = (at::bmm(lowering.E, s.projection.B) / cube(tau)).masked_fill_(left, 0);
  set_rows(rows, Y);
  Tensor MY = rows.Z;
  MY.copy_(at::bmm(lowering.M, Y)).masked_fill_(left, 0);
  G.subtract(rows, changed);
}

void remember(const Search& s, BatchSubspace& state) {
  const SubspaceWork& work = *state.work;
  const Tensor rows = next_rows(s.projection, work.last, work, work.kept, kStepsToKeep);
  const Tensor length = at::linalg_vector_norm(rows, 2, {2}, true).clamp_min_(1e-290);
  const Tensor unit = (rows / length).to(at::kFloat);
  // A checkpoint holds float32; a run that goes on must not know more than one that is resumed.
  const Tensor before = state.V.defined() ? state.V : at::zeros_like(unit);
  state.V = at::where(cube(s.in_range), at::nan_to_num(unit, 0, 0, 0), before);
}

}  // namespace

std::int64_t followed_rows(const ClipOptions& options) noexcept {
  if (options.method == Method::sketched) return rank_limit(options) + options.oversampling;
  return std::max(options.device_columns, rank_limit(options));
}

BatchReport clip_by_subspace(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                             const BatchStream& stream, BatchSubspace& state) {
  const bool cold = prepare(matrices, options, stream, state);
  const MatrixBatch G(matrices);
  const Search s = run(G, state, cold, options);
  const double band = std::max(dead_band(storage_type(G.storage())), options.margin / 4);  // as in the core
  const Lowering lowering = lower_above(s.projection, tau, band, rank_limit(options), *state.work);

  BatchReport report;
  report.method = options.method == Method::sketched ? Method::sketched : Method::tracked;
  report.passes = s.passes;
  report.columns = state.work->last.V.size(1);
  report.finite = s.in_range;
  report.out_of_range = at::logical_and(s.finite, s.in_range.logical_not());
  report.tau = tau;
  report.norm_before = s.norm;
  report.clipped = lowering.count;
  certify(s, lowering, tau, options, G.storage(), report);
  report.unconverged.logical_or_(report.out_of_range);
  if (options.method != Method::sketched) remember(s, state);
  if (!options.observe_only) {
    Tensor changed = at::logical_and(lowering.any, s.in_range);
    if (finishes_dense(options)) changed = changed.logical_and(report.unconverged.logical_not());
    lower(G, s, lowering, tau, changed, state.work->last);
  }
  return report;
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "clip/clip_subspace.h"

#include <algorithm>
#include <cmath>

#include "clip/dead_band.h"
#include "clip/stage_clock.h"
#include "subspace/certificate.h"
#include "subspace/search.h"
#include "subspace/work_rows.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kSketchedRank = 10;  // the paper's r
// Rounding of the update, eps sigma_max, leaves the dead band of 32 eps tau beyond this ratio: the spike's directions
// are looked at, and if need be lowered, once more.
constexpr double kCleanRatio = 16;

SearchOptions search_options(const ClipOptions& options, double tau, const AnyMatrix& G) {
  SearchOptions s;
  const std::int64_t smaller = std::min(G.rows, G.cols);
  s.tau = tau;
  // Vectors off by `tolerance` leave sigma too large by its square: a second clip shall not write for that. (In float32
  // the dead band is wider.)
  constexpr double kSafety = 16;
  s.level = tau * (1 + std::max(dead_band(G.type), kSafety * options.tolerance * options.tolerance));
  s.rank = options.rank.value_or(0);
  s.tolerance = options.tolerance;
  s.max_passes = options.max_passes;
  s.max_columns = options.max_columns;
  if (options.method == Method::sketched) {
    s.level = tau * (1 + dead_band(G.type));
    s.rank = options.rank.value_or(std::min(kSketchedRank, smaller));
    s.oversampling = options.oversampling;
    s.power_passes = options.power_passes;
  }
  return s;
}

// What clipping does to the energy inside the subspace.
struct Left {
  double largest = 0;  // largest singular value left inside
  double energy = 0;   // sum of squares left inside
  double removed = 0;  // sum of sigma^2 - tau^2
};

template <class T>
Left left_inside(const SubspaceSearch<T>& search, double tau) {
  Left left;
  for (std::int64_t i = 0; i < search.found(); ++i) {
    const double sigma = search.sigma()[i];
    const double now = i < search.above() ? tau : sigma;
    left.largest = std::max(left.largest, now);
    left.energy += now * now;
    left.removed += sigma * sigma - now * now;
  }
  return left;
}

template <class T>
std::int64_t count_above(const SubspaceSearch<T>& search, double level) {
  return std::count_if(search.sigma(), search.sigma() + search.above(), [&](double sigma) { return sigma > level; });
}

template <class T>
double lower_to_tau(const AnyMatrix& G, const SubspaceSearch<T>& search, double tau, Executor& executor) {
  // The coefficients live where the update's buffers have room: the slabs' Gram matrices, free after the search.
  T* coefficient = reinterpret_cast<T*>(search.buffers().grams);
  for (std::int64_t i = 0; i < search.above(); ++i) coefficient[i] = static_cast<T>(1 - tau / search.sigma()[i]);
  return run_update<T>(G, search.vectors(), search.above(), coefficient, search.buffers(), executor);
}

template <class T>
void fill_certificate(ClipReport& report, const AnyMatrix& G, const SubspaceSearch<T>& search, const Left& left,
                      const SearchOptions& options, double norm_squared_after) {
  const double rounding =
      dead_band(G.type);  // of a sum of squares or of a Ritz value, relative: measured below half of it
  const double sigma_max = report.sigma_max;
  const double stored = report.clipped > 0 && needs_conversion(G.type) ? storage_epsilon(G.type) : 0.0;
  CertificateInput input;
  const double amplified = rounding * search.amplification() * sigma_max;  // error of a row of B
  const auto columns = static_cast<double>(search.found());
  input.seen = left.largest + amplified + stored * report.norm_after;
  input.unseen_energy = (search.complete() ? 0.0 : std::max(norm_squared_after - left.energy, 0.0)) +
                        rounding * norm_squared_after + columns * (2 * left.largest + amplified) * amplified;
  const double probe_rounding = rounding * sigma_max * report.norm_before;
  input.probe_largest = search.probe_largest() + probe_rounding * probe_rounding;
  input.fresh = search.fresh();
  input.left_out = search.left_out();
  input.looks = options.max_passes;
  const Certificate certificate = certify(input);
  report.sigma_bound = certificate.bound;
  report.bound_kind = certificate.kind;
  const double unseen = std::sqrt(std::max(certificate.bound * certificate.bound - input.seen * input.seen, 0.0));
  const bool full = options.rank > 0 && report.clipped >= options.rank && !search.complete();
  if ((full && unseen > options.level) || left.largest > options.level) report.status = ClipStatus::rank_exhausted;
}

template <class T>
std::optional<ClipReport> clip(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                               SubspaceState& state, Workspace& workspace, Executor& executor) {
  StageClock clock(options.measure_time);
  const SearchOptions wanted = search_options(options, tau, G);
  SubspaceSearch<T> search(G, wanted, stream, state, workspace, executor);
  const SearchOutcome outcome = search.run();
  if (outcome == SearchOutcome::out_of_range) return std::nullopt;
  clock.lap(Stage::pass);

  ClipReport report;
  report.method = options.method;
  report.tau = tau;
  report.sigma_max = search.sigma_max();
  report.clipped = search.above();
  report.norm_before = std::sqrt(search.norm_squared());
  report.passes = search.passes();
  report.columns = search.columns();
  report.error_estimate = search.error_estimate();
  if (outcome != SearchOutcome::settled) report.status = ClipStatus::rank_exhausted;
  if (options.method == Method::tracked) search.remember();
  state.clipped_lately = report.clipped;
  const bool unfinished = outcome == SearchOutcome::exhausted && wanted.rank == 0;
  if (unfinished && options.exhausted == Exhausted::go_exact) return report;  // clip_one goes on with `gram`

  Left left = left_inside(search, tau);
  double norm_squared_after = std::max(search.norm_squared() - left.removed, 0.0);
  report.removed_energy = std::clamp(left.removed / search.norm_squared(), 0.0, 1.0);
  if (report.clipped > 0 && !options.observe_only) {
    norm_squared_after = lower_to_tau(G, search, tau, executor);
    const bool may_read_on = options.method != Method::sketched;  // Algorithm 2 reads as often as it was told
    const std::int64_t loud = count_above(search, kCleanRatio * tau);
    if (may_read_on && loud > 0 && search.look_again(loud)) {
      left = left_inside(search, tau);
      left.largest = std::max(left.largest, tau);  // directions lowered before that were not looked at again
      if (search.above() > 0) norm_squared_after = lower_to_tau(G, search, tau, executor);
      report.passes = search.passes();
    }
  }
  report.norm_after = std::sqrt(norm_squared_after);
  fill_certificate(report, G, search, left, wanted, norm_squared_after);
  clock.lap(Stage::update);
  report.seconds = clock.seconds();
  return report;
}

}  // namespace

std::optional<ClipReport> clip_by_subspace(const AnyMatrix& G, double tau, const ClipOptions& options,
                                           const RandomStream& stream, SubspaceState& state, Workspace& workspace,
                                           Executor& executor) {
  if (G.type == ScalarType::float64) return clip<double>(G, tau, options, stream, state, workspace, executor);
  return clip<float>(G, tau, options, stream, state, workspace, executor);
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "clip/clip_one.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "clip/cost.h"
#include "clip/dense.h"
#include "clip/entries.h"
#include "clip/factors.h"
#include "clip/subspace_clip.h"

namespace spectralclip {
namespace {

ClipReport clip_dense(Method method, const AnyMatrix& G, double tau, bool write, ClipFactors* factors) {
  if (method != Method::exact && method != Method::newton_schulz) return clip_gram(G, tau, write, factors);
  const ClipReport report = method == Method::exact ? clip_exact(G, tau, write) : clip_newton_schulz(G, tau, write);
  if (write && report.written()) FactorWriter(factors).entries(G);
  return report;
}

// Squares of float32 overflow or vanish long before the entries do: `gram` works in float64 on scaled entries.
ClipReport clip_out_of_range(const AnyMatrix& G, double tau, Method method, bool write, ClipFactors* factors) {
  const double largest = max_abs_entry(G);
  if (std::isfinite(largest) && largest > 0) return clip_gram(G, tau, write, factors);
  if (largest > 0 || std::isnan(largest)) return not_finite_report(tau, method);
  ClipReport report;  // all zero: nothing to do
  report.method = method;
  report.tau = tau;
  report.passes = 1;
  return report;
}

// What a search that did not settle leaves to `gram`; G is as the search's updates left it. Without the memory for that
// it stays so, and the search's own word, that something may remain, is the answer.
ClipReport finish_dense(const ClipReport& search, const AnyMatrix& G, double tau, bool write, SubspaceState& state,
                        ClipFactors* factors) {
  ClipReport report;
  try {
    report = clip_gram(G, tau, write, factors);
  } catch (const std::bad_alloc&) {
    if (search.clipped == 0) throw;  // nothing was written
    return search;
  }
  report.passes += search.passes;
  if (search.clipped > 0 && search.norm_after > 0) {  // it lowered something before it gave up
    report.clipped = std::max(report.clipped, search.clipped);
    report.sigma_max = search.sigma_max;
    report.norm_before = search.norm_before;
    const double share = report.norm_after / report.norm_before;
    report.removed_energy = std::clamp(1 - share * share, 0.0, 1.0);
  }
  state.clipped_lately = report.clipped;
  return report;
}

ClipReport clip_positive(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                         SubspaceState& state, Workspace& workspace, Executor& executor, ClipFactors* factors) {
  ClipOptions chosen = options;
  chosen.method = choose_method(options, G, state);
  const bool write = !options.observe_only;
  if (chosen.method != Method::tracked && chosen.method != Method::sketched) {
    const ClipReport report = clip_dense(chosen.method, G, tau, write, factors);
    if (report.status == ClipStatus::ok) state.clipped_lately = report.clipped;
    return report;
  }
  const SubspaceJob job{G, G.rows, tau, &chosen, stream, factors};
  const ClipReport report = clip_by_subspace(job, state, workspace, executor);
  if (report.status == ClipStatus::out_of_range) return clip_out_of_range(G, tau, chosen.method, write, factors);
  const bool unfinished = report.status == ClipStatus::not_converged || report.status == ClipStatus::rank_exhausted;
  return unfinished && finishes_dense(chosen) ? finish_dense(report, G, tau, write, state, factors) : report;
}

// tau = 0 erases the gradient (the paper's first step); its size is still measured.
ClipReport erase(const AnyMatrix& G, ClipReport report, bool write, ClipFactors* factors) {
  report.tau = 0;
  if (report.status == ClipStatus::not_finite || report.sigma_max == 0) return report;
  report.status = ClipStatus::ok;
  report.clipped = std::min(G.rows, G.cols);
  report.norm_after = 0;
  report.removed_energy = 1;
  report.sigma_bound = 0;
  report.bound_kind = BoundKind::certain;
  if (write) fill_zero(G);
  if (write) FactorWriter(factors).zeros();
  return report;
}

}  // namespace

ClipReport clip_one(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                    SubspaceState& state, Workspace& workspace, Executor& executor, ClipFactors* factors) {
  if (tau > 0) return clip_positive(G, tau, options, stream, state, workspace, executor, factors);
  const double unclipped = std::numeric_limits<double>::infinity();
  return erase(G, clip_positive(G, unclipped, options, stream, state, workspace, executor, nullptr),
               !options.observe_only, factors);
}

}  // namespace spectralclip

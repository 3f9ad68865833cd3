// SPDX-License-Identifier: Apache-2.0
#include "clip/clip_one.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "clip/clip_subspace.h"
#include "clip/dense.h"
#include "clip/entries.h"

namespace spectralclip {
namespace {

// A full SVD of so small a matrix costs microseconds.
constexpr std::int64_t kTinySide = 16;

Method choose(const ClipOptions& options, const AnyMatrix& G, const SubspaceState& state) {
  if (options.method != Method::automatic) return options.method;
  const std::int64_t smaller = std::min(G.rows, G.cols);
  if (smaller <= kTinySide) return Method::exact;
  // When a quarter of the spectrum is clipped a subspace wide enough costs as much as the Gram matrix.
  return 4 * state.clipped_lately > smaller ? Method::gram : Method::tracked;
}

ClipReport clip_dense(Method method, const AnyMatrix& G, double tau, bool write) {
  if (method == Method::exact) return clip_exact(G, tau, write);
  if (method == Method::newton_schulz) return clip_newton_schulz(G, tau, write);
  return clip_gram(G, tau, write);
}

// Squares of float32 overflow or vanish long before the entries do: `gram` works in float64 on scaled entries.
ClipReport clip_out_of_range(const AnyMatrix& G, double tau, Method method, bool write) {
  const double largest = max_abs_entry(G);
  if (std::isfinite(largest) && largest > 0) return clip_gram(G, tau, write);
  ClipReport report;  // all zero, or not finite: nothing to do
  report.method = method;
  report.tau = tau;
  report.passes = 1;
  if (largest == 0) return report;
  report.status = ClipStatus::not_finite;
  report.sigma_max = report.norm_before = report.norm_after = report.sigma_bound =
      std::numeric_limits<double>::quiet_NaN();
  return report;
}

ClipReport clip_positive(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                         SubspaceState& state, Workspace& workspace, Executor& executor) {
  ClipOptions chosen = options;
  chosen.method = choose(options, G, state);
  const bool write = !options.observe_only;
  if (chosen.method != Method::tracked && chosen.method != Method::sketched) {
    const ClipReport report = clip_dense(chosen.method, G, tau, write);
    if (report.status == ClipStatus::ok) state.clipped_lately = report.clipped;
    return report;
  }
  const auto report = clip_by_subspace(G, tau, chosen, stream, state, workspace, executor);
  if (!report) return clip_out_of_range(G, tau, chosen.method, write);
  const bool unfinished = report->status == ClipStatus::rank_exhausted && !options.rank &&
                          chosen.method == Method::tracked && options.exhausted == Exhausted::go_exact;
  if (!unfinished || report->norm_after > 0) return *report;
  ClipReport exact = clip_gram(G, tau, write);
  exact.passes += report->passes;
  state.clipped_lately = exact.clipped;
  return exact;
}

// tau = 0 erases the gradient (the paper's first step); its size is still measured.
ClipReport erase(const AnyMatrix& G, ClipReport report, bool write) {
  report.tau = 0;
  if (report.status == ClipStatus::not_finite || report.sigma_max == 0) return report;
  report.status = ClipStatus::ok;
  report.clipped = std::min(G.rows, G.cols);
  report.norm_after = 0;
  report.removed_energy = 1;
  report.sigma_bound = 0;
  report.bound_kind = BoundKind::certain;
  if (write) fill_zero(G);
  return report;
}

}  // namespace

ClipReport clip_one(const AnyMatrix& G, double tau, const ClipOptions& options, const RandomStream& stream,
                    SubspaceState& state, Workspace& workspace, Executor& executor) {
  if (tau > 0) return clip_positive(G, tau, options, stream, state, workspace, executor);
  const double unclipped = std::numeric_limits<double>::infinity();
  return erase(G, clip_positive(G, unclipped, options, stream, state, workspace, executor), !options.observe_only);
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// Norm clipping: what C_tau does to a vector, and the yardstick of the benchmarks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "clip/dead_band.h"
#include "clip/entries.h"
#include "clip/factors.h"
#include "clip/scale_to_norm.h"
#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip {

ClipReport scaling_report(double norm, double max_norm, ScalarType type) {
  ClipReport report;
  report.tau = max_norm;
  report.passes = 1;
  report.sigma_max = report.norm_before = report.norm_after = report.sigma_bound = norm;
  if (!std::isfinite(norm)) {
    report.status = std::isnan(norm) ? ClipStatus::not_finite : ClipStatus::out_of_range;
    return report;
  }
  if (norm <= max_norm * (1 + dead_band(type))) return report;
  report.clipped = 1;
  report.norm_after = max_norm;
  report.sigma_bound = max_norm * (1 + storage_epsilon(type));
  report.removed_energy = 1 - (max_norm / norm) * (max_norm / norm);
  return report;
}

ClipReport scale_to_norm(const AnyMatrix& G, double max_norm, bool write, Executor& executor, ClipFactors* factors) {
  const ClipReport report = scaling_report(std::sqrt(sum_of_squares(G, executor)), max_norm, G.type);
  if (!write || report.clipped == 0) return report;
  scale_entries(G, max_norm / report.norm_before, executor);
  FactorWriter(factors).scaled(max_norm / report.norm_before);
  return report;
}

ClipReport clip_norm(const AnyMatrix& G, double max_norm, Executor& executor) {
  validate(G);
  SPECTRALCLIP_REQUIRE(max_norm >= 0, "max_norm = ", max_norm, " is not a number >= 0");
  return scale_to_norm(G, max_norm, true, executor);
}

double frobenius_norm(const AnyMatrix& G, Executor& executor) {
  validate(G);
  return std::sqrt(sum_of_squares(G, executor));
}

}  // namespace spectralclip

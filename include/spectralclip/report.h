// SPDX-License-Identifier: Apache-2.0
// What a clip did, returned and never printed. Sinks in telemetry.h turn reports into files.
#pragma once

#include <array>
#include <cstdint>

#include "spectralclip/export.h"
#include "spectralclip/options.h"

namespace spectralclip {

// ok is a promise: nothing above tau (1 + margin) is left, and the result is within 3 (tolerance ||D||_F + margin tau)
// of C_tau(G), D = G - C_tau(G). Certain for exact and gram (margin: rounding), true but for one case in 1,000
// otherwise.
enum class ClipStatus : std::uint8_t {
  ok = 0,                    // clipped (or nothing to clip)
  not_finite = 1,            // NaN or Inf in the gradient: left untouched, nothing observed
  rank_exhausted = 2,        // as many were lowered as the rank (or max_columns) allows; others above tau may remain
  factorization_failed = 3,  // a dense factorisation did not converge: left untouched
  not_converged = 4,         // the budget of passes is used up: what was found was lowered, something may remain
  out_of_range = 5,          // finite, but sigma_max or the norm is beyond the largest double: left untouched
  out_of_memory = 6          // the memory for its work could not be had: left untouched
};
[[nodiscard]] SPECTRALCLIP_EXPORT const char* to_string(ClipStatus status) noexcept;
// Whether the gradient was looked at as a whole: its sigma_max counts for the threshold, and the step as a step.
[[nodiscard]] constexpr bool observed(ClipStatus status) noexcept {
  return status == ClipStatus::ok || status == ClipStatus::rank_exhausted || status == ClipStatus::not_converged;
}

// How far the bound on what is left can be trusted.
enum class BoundKind : std::uint8_t {
  certain = 0,   // follows from the energy that was not captured; cannot fail beyond rounding
  estimated = 1  // follows from random probes; fails with probability at most kEstimateFailure
};
[[nodiscard]] SPECTRALCLIP_EXPORT const char* to_string(BoundKind kind) noexcept;

inline constexpr double kEstimateFailure = 1e-3;

// Seconds per stage, filled only when ClipOptions::measure_time is set.
enum class Stage : std::uint8_t { pass = 0, factor = 1, update = 2 };
inline constexpr int kStageCount = 3;

struct ClipReport {
  ClipStatus status = ClipStatus::ok;
  Method method = Method::tracked;  // the method that did the work (what `automatic` or a fallback chose)
  double tau = 0;                   // threshold used; infinity when nothing was to be clipped
  double sigma_max = 0;             // largest singular value found before clipping
  std::int64_t clipped = 0;         // singular values lowered to tau
  double norm_before = 0;           // Frobenius norms
  double norm_after = 0;
  double removed_energy = 0;                  // 1 - norm_after^2 / norm_before^2, in [0, 1]
  double sigma_bound = 0;                     // nothing left is larger than this …
  BoundKind bound_kind = BoundKind::certain;  // … said with this confidence
  double error_estimate = 0;                  // relative error of the removed part, as the residual tells
  int passes = 0;                             // reads of the whole matrix, the update not counted
  std::int64_t columns = 0;                   // width of the subspace used (0 for dense methods)
  std::array<double, kStageCount> seconds{};

  [[nodiscard]] bool written() const noexcept { return clipped > 0 && status != ClipStatus::not_finite; }
};

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// What the conformance list needs to know of a method: who runs it, its options, which shapes it can afford, and how
// far its result may be from the truth. A new method is one line in kMethods; another engine brings a list of its own.
#pragma once

#include <algorithm>
#include <cmath>

#include "clip/dead_band.h"
#include "spectralclip/clip.h"
#include "support/reference.h"

namespace spectralclip::testing {

using ClipEngine = ClipReport (*)(const AnyMatrix& G, double tau, const ClipOptions& options);

struct MethodCase {
  const char* name;
  Method method;
  Eigen::Index widest;  // largest min(rows, cols) it is asked for here: its cost is cubic in that
  bool subspace;        // finds only what it needs: judged by its own error estimate, not by rounding alone
  Eigen::Index rank;    // lowers at most this many values and says so when there are more; 0: all of them
  ClipEngine clip;
};

// The sketch keeps rank 10 unless told otherwise: the paper's Algorithm 2.
inline constexpr Eigen::Index kSketchedRank = 10;

inline ClipReport clip_by_core(const AnyMatrix& G, double tau, const ClipOptions& options) {
  return clip_singular_values(G, tau, options);
}

inline constexpr MethodCase kMethods[] = {
    {"exact", Method::exact, 101, false, 0, clip_by_core},
    {"gram", Method::gram, 1 << 20, false, 0, clip_by_core},
    {"sketched", Method::sketched, 1 << 20, true, kSketchedRank, clip_by_core},
    {"tracked", Method::tracked, 1 << 20, true, 0, clip_by_core},
    {"newton_schulz", Method::newton_schulz, 101, false, 0, clip_by_core},
    {"automatic", Method::automatic, 1 << 20, true, 0, clip_by_core},
};

// Storage rounding of the result and the work: c sqrt(max(m, n)) eps ||G||_F, C_tau being 1-Lipschitz. c: measured
// worst 1.7 in float64 (where the method's own rounding and the reference's meet), 0.1 for methods that work in float64
// on narrower storage, 0.35 for those that work in float32; headroom 3.
[[nodiscard]] inline double rounding(ScalarType type, const Reference& reference, bool float32_work = true) {
  const double c = type == ScalarType::float64 ? 5 : float32_work ? 1 : 0.3;
  const auto longer = static_cast<double>(std::max(reference.exact.rows(), reference.exact.cols()));
  return c * std::sqrt(longer) * storage_epsilon(type) * reference.sigma.norm() + reference.error;
}

// Relative accuracy of sigma_max that a cold start works for, and how far beyond a single case may be.
inline constexpr double kColdSigma = 1e-3;
inline constexpr double kSigmaSlack = 3;

// What `ok` promises of the result, beside rounding; a search that is not sure is judged by its own estimate.
[[nodiscard]] inline double allowed_error(const MethodCase& c, const ClipOptions& options, ScalarType type,
                                          const Reference& reference, double tau, const ClipReport& report) {
  if (!c.subspace) return rounding(type, reference, false);
  const double promised = options.tolerance * reference.removed_norm(tau) + options.margin * tau;
  const double estimated = report.status == ClipStatus::ok ? 0.0 : report.error_estimate * reference.removed_norm(tau);
  return rounding(type, reference) + 3 * (promised + estimated);
}

}  // namespace spectralclip::testing

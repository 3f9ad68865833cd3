// SPDX-License-Identifier: Apache-2.0
// After a pass: is what was found enough to clip by, and if not, what to read next. A pure function of what the passes
// say, so that ranks which share the sums decide alike. Derivations in docs/numerics.md.
#pragma once

#include <cstdint>
#include <limits>

namespace spectralclip {

struct SearchOptions {
  double tau = 0;        // threshold (infinity: only measure) …
  double level = 0;      // … what counts as above it …
  double margin = 1e-3;  // … and how far above it, relatively, a value may be left
  double tolerance = 1e-4;
  double sigma_tolerance = 1e-2;  // wanted relative accuracy of sigma_max where nothing is above
  std::int64_t rank = 0;          // most values to lower; 0: all
  std::int64_t oversampling = 0;  // sketched: columns beside the rank
  int power_passes = -1;          // >= 0: sketched, exactly 1 + power_passes passes from a cold start
  int max_passes = 6;             // reads of the matrix before `not_converged`
  std::int64_t max_columns = 64;  // width of the basis before `exhausted`
  std::int64_t max_kept = 32;     // vectors carried to the next step at most
  double max_cost = std::numeric_limits<double>::infinity();  // microseconds by cost.h before `not_converged`
};

enum class SearchOutcome : std::uint8_t {
  settled,        // what was found may be clipped by, and nothing that matters was missed
  not_converged,  // max_passes were read and something may still be missing or inexact
  exhausted,      // more values above level than the rank or max_columns allow
  out_of_range    // squares overflow, vanish, or an entry is not finite
};

// How large H = (I - Q Q^T) G is, the part of G that the columns of the passes did not hold.
struct Unseen {
  double bound = std::numeric_limits<double>::infinity();    // ||H|| is at most this, but for a chance of
                                                             // kEstimateFailure (numerics.md, Theorem 2)
  double typical = std::numeric_limits<double>::infinity();  // without the factor of safety: a scale for convergence
};

// What the passes so far say. sigma, sine: `count` Ritz values and the sines of their vectors (ritz.h).
struct Findings {
  std::int64_t count = 0;
  const double* sigma = nullptr;
  const double* sine = nullptr;
  const double* noise = nullptr;  // what rounding may move the squares of sigma by …
  double floor = 0;               // … so much that values up to here are not known …
  bool can_improve = false;       // … and less with the vectors found as columns
  bool complete = false;          // the basis spans everything: nothing is unseen
  Unseen unseen;                  // of what it does not span …
  bool probing = false;           // … and another power of the probe would lower the bound
  double sigma_correction = 0;    // relative amount by which sigma[0] is still seen short
};

struct Judgement {
  std::int64_t above = 0;  // values to lower
  double error = 0;        // estimate of the removed part's relative error
  double error_allowed = 0;
  bool hidden = false;       // something above tau may be unseen
  bool rank_full = false;    // as many above as the rank allows
  bool beyond_rank = false;  // … and more
  bool can_improve = false;  // as in Findings
  bool rounded = false;      // the error is mostly rounding that better columns would not have
  bool wide_range = false;   // sigma[0] is so large that values near tau drown in its rounding: clip, then look again
  bool refine = false;       // sigma_max, of which thresholds learn, is not known well enough
  std::int64_t sharpen = 0;  // leading Ritz vectors that the next pass should read; 0: none

  [[nodiscard]] bool settled() const noexcept { return !hidden && !rounded && sharpen == 0; }
};

[[nodiscard]] Judgement judge(const Findings& findings, const SearchOptions& options);

}  // namespace spectralclip

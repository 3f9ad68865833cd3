// SPDX-License-Identifier: Apache-2.0
// What the last pass says about its own quality: how far the vectors found are off, what may still be missing, and
// whether a narrower pass would do next. Derivations in docs/numerics.md.
#include <algorithm>
#include <cmath>

#include "kernels/small_products.h"
#include "subspace/search.h"
#include "subspace/search_limits.h"

namespace spectralclip {
namespace {

using kernels::padded;

constexpr double kErrorSafety = 2.0;  // measured true / estimated error: median 2 with fresh columns (numerics.md)

}  // namespace

// Largest singular value that may be missing from the subspace, as a scale for convergence: the last one found, or the
// root mean square of what is unseen. In a cold start directions beyond the kept ones are known from random columns
// alone and count as missing too.
template <class T>
double SubspaceSearch<T>::next_sigma() const noexcept {
  if (complete()) return 0;
  if (narrow_) return beyond_;
  const double unseen = std::max(norm_squared_ - captured_energy(), 0.0);
  const auto count = static_cast<double>(smaller_side() - ritz_.independent);
  const std::int64_t found = std::max<std::int64_t>(ritz_.independent, 1) - 1;
  const double last = ritz_.sigma[cold_ && !sketched() ? std::min(std::max(kept_, above_), found) : found];
  return std::max(last, std::sqrt(unseen / count));
}

template <class T>
void SubspaceSearch<T>::compute_sines(std::int64_t count) {
  kernels::gram_rows(Vt_, k_, G_.cols, padded(G_.cols), ritz_.N);
  kernels::cross_gram_rows(Vt_, k_, Zt_, k_, G_.cols, padded(G_.cols), ritz_.P);
  solve_sines(ritz_, count);
}

// Relative error of U diag(sigma - tau) V^T over what exceeds level: vector i is off by sine_i rho_i^2, its sigma by
// sigma_i (sine_i rho_i)^2 / 2, with rho_i = next / sigma_i.
template <class T>
void SubspaceSearch<T>::estimate_error() {
  error_estimate_ = 0;
  if (above_ == 0 || complete()) return;
  compute_sines(above_);
  const double next = next_sigma();
  double error = 0;
  double removed = 0;
  for (std::int64_t i = 0; i < above_; ++i) {
    const double sigma = ritz_.sigma[i];
    const double rho = next / sigma;
    const double excess = sigma - options_.tau;
    const double turned = ritz_.sine[i] * rho * rho * excess;
    const double shortened = 0.5 * sigma * (ritz_.sine[i] * rho) * (ritz_.sine[i] * rho);
    error += turned * turned + shortened * shortened;
    removed += excess * excess;
  }
  error_estimate_ = kErrorSafety * std::sqrt(error / removed);
}

// Fresh columns saw something in one direction that the kept ones do not hold and that may exceed level: the spread of
// the probe ignores what is seen equally in all directions, i.e. the bulk of the spectrum.
template <class T>
bool SubspaceSearch<T>::probe_fires() const noexcept {
  if (probed_ == 0 || narrow_ || complete()) return false;
  const double spread = ritz_.probe[0] - ritz_.probe[probed_ - 1];
  if (!rank_is_full()) return std::sqrt(std::sqrt(std::max(spread, 0.0))) > options_.level;
  // All places are taken: only what is likely to be larger than the last of them matters. A value is seen, squared and
  // squared again, times the squared length of its part of the fresh columns, probed_ on average.
  return spread > static_cast<double>(probed_) * std::pow(ritz_.sigma[options_.rank - 1], 4);
}

// The next pass may do without fresh columns when those of this one saw nothing that may exceed level: the probe, which
// is about everything that the kept columns did not hold, stands.
template <class T>
bool SubspaceSearch<T>::may_narrow() const noexcept {
  if (narrow_) return true;
  return !cold_ && above_ > 0 && even(worth_sharpening()) < k_ && !complete() && !probe_fires();
}

// The vectors that are carried anyway, and all that are not far below level: a pass without them would not tell them
// from the ones above. (Those above alone: error of the removed part 4 to 10 times as large on recorded gradients.)
template <class T>
std::int64_t SubspaceSearch<T>::worth_sharpening() const noexcept {
  if (options_.rank > 0) return options_.rank;
  constexpr double kNear = 0.3;
  const auto near = [&](double s) { return s > kNear * options_.level; };
  return std::max(capacity(), std::count_if(ritz_.sigma, ritz_.sigma + k_, near));
}

// The relative amount by which a pass sees sigma_max short. Its vector turned by an angle in the pass, and will turn by
// rho^2 times that in the next: what the squared value still lacks is rho^2 / (1 - rho^2) of what the pass gained, and
// at most (sine rho)^2, which is what all of the angle would be worth.
template <class T>
double SubspaceSearch<T>::sigma_correction() {
  if (sketched() || complete() || kept_ == 0 || ritz_.sigma[0] <= 0) return 0;
  if (!turn_known_) {
    kernels::cross_gram_rows(Vt_, kept_, Zt_, k_, G_.cols, padded(G_.cols), ritz_.P);
    turn_ = leading_turn(ritz_, kept_);
    turn_known_ = true;
  }
  const double rho = std::min(next_sigma() / ritz_.sigma[0], 1.0);
  constexpr double kLeastGap = 1.0 / 16;  // of 1 - rho^2: with nearly equal values the gain is rounding
  return 0.5 * rho * rho * std::min(turn_.sine_squared, turn_.gain / std::max(1 - rho * rho, kLeastGap));
}

// The largest value not above level: could it be, once converged? One pass in: by its own angle; later: by its growth.
template <class T>
bool SubspaceSearch<T>::below_may_rise() {
  if (above_ >= ritz_.independent || complete() || rank_is_full() || std::isinf(options_.level)) return false;
  const double sigma = ritz_.sigma[above_];
  const double before = ritz_.previous[above_];
  if (before > 0) return sigma * std::max(1.0, sigma / before) > options_.level;
  const double rho = std::min(1.0, next_sigma() / sigma);
  if (sigma * (1 + rho * rho) <= options_.level) return false;
  compute_sines(above_ + 1);
  const double sine = ritz_.sine[above_];
  return sigma * (1 + sine * sine * rho * rho) > options_.level;
}

template class SubspaceSearch<float>;
template class SubspaceSearch<double>;

}  // namespace spectralclip

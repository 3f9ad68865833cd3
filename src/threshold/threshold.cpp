// SPDX-License-Identifier: Apache-2.0
// tau from the past: constant; EMA, bias-corrected (the paper's Algorithm 1); quantile of a window (Algorithm 3).
// State is booked by make_threshold_state; threshold and observe allocate nothing.
#include "spectralclip/threshold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "constants.h"
#include "require.h"
#include "threshold/quantile.h"

namespace spectralclip {
namespace {

// average / (1 - decay^observed). expm1 keeps the denominator accurate when decay is close to 1 and little was seen.
double corrected_average(double decay, const ThresholdState& state) noexcept {
  return state.average / -std::expm1(static_cast<double>(state.observed) * std::log(decay));
}

// `window` and `sorted` are allocated whole; the first min(observed, size) values of `sorted` are in use.
std::span<const double> filled(const ThresholdState& state) noexcept {
  return std::span(state.sorted).first(std::min(static_cast<std::size_t>(state.observed), state.sorted.size()));
}

double raw_threshold(const ThresholdOptions& options, const ThresholdState& state) noexcept {
  if (options.kind == ThresholdKind::constant) return options.tau;
  if (state.observed == 0) return 0;  // FirstStep::zero
  if (options.kind == ThresholdKind::ema) return corrected_average(options.decay, state);
  return quantile_of_sorted(filled(state), options.quantile, options.interpolation);
}

void require_window(const ThresholdOptions& options, const ThresholdState& state) {
  if (options.kind != ThresholdKind::quantile) return;
  const auto size = static_cast<std::size_t>(options.window);
  SPECTRALCLIP_REQUIRE(state.window.size() == size && state.sorted.size() == size, "threshold state holds windows of ",
                       state.window.size(), " and ", state.sorted.size(), " values, the options say ", options.window);
}

// Replaces the oldest value once the ring is full. Equal values are interchangeable, so any slot of `oldest` will do.
void slide_window(ThresholdState& state, double sigma_max) noexcept {
  const std::size_t size = state.window.size();
  const auto seen = static_cast<std::size_t>(state.observed);
  double& slot = state.window[seen % size];
  if (seen < size) {
    place_sorted(std::span(state.sorted).first(seen + 1), seen, sigma_max);
  } else {
    const auto oldest = std::lower_bound(state.sorted.begin(), state.sorted.end(), slot);
    place_sorted(state.sorted, static_cast<std::size_t>(oldest - state.sorted.begin()), sigma_max);
  }
  slot = sigma_max;
}

// The published clipper records zeros. Its EMA then answers a zero first gradient with tau = 0: the second gradient is
// erased, the third cut to 0.1 / 0.19 = 0.526 of itself, and a layer that is zero for long (a frozen or unused branch)
// stays frozen long after it wakes. A zero has nothing to clip and no scale, so by default it is not recorded.
bool is_recorded(const ThresholdOptions& options, double sigma_max) noexcept {
  if (!std::isfinite(sigma_max) || sigma_max < 0) return false;
  return sigma_max > 0 || options.observe_zeros || options.kind == ThresholdKind::constant;
}

}  // namespace

ThresholdState make_threshold_state(const ThresholdOptions& options) {
  validate(options);
  ThresholdState state;
  if (options.kind == ThresholdKind::quantile) {
    state.window.assign(static_cast<std::size_t>(options.window), 0.0);
    state.sorted.assign(static_cast<std::size_t>(options.window), 0.0);
  }
  return state;
}

// Unclipped means unclipped: during warm-up and before the first value tau is infinity whatever `cap` says. A cap that
// must hold from the first step on is a constant threshold, or FirstStep::zero with a floor.
double threshold(const ThresholdOptions& options, const ThresholdState& state) {
  require_window(options, state);
  if (state.observed < options.warmup_steps) return kInfinity;
  const bool adaptive = options.kind != ThresholdKind::constant;
  if (adaptive && state.observed == 0 && options.first_step == FirstStep::unclipped) return kInfinity;
  return std::clamp(raw_threshold(options, state) * options.slack, options.floor, options.cap);
}

bool observe(const ThresholdOptions& options, ThresholdState& state, double sigma_max) {
  require_window(options, state);
  if (!is_recorded(options, sigma_max)) return false;
  sigma_max = std::abs(sigma_max);  // -0 becomes 0
  if (options.kind == ThresholdKind::ema) {
    const double average = options.decay * state.average + (1 - options.decay) * sigma_max;
    state.average = std::min(average, std::numeric_limits<double>::max());  // rounding must not make it infinite
  } else if (options.kind == ThresholdKind::quantile) {
    slide_window(state, sigma_max);
  }
  ++state.observed;
  return true;
}

}  // namespace spectralclip

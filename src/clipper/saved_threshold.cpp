// SPDX-License-Identifier: Apache-2.0
#include "clipper/saved_threshold.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "require.h"

namespace spectralclip {
namespace {

// 1 - decay^count: what a bias-corrected average was divided by.
double weight_of(double decay, std::int64_t count) noexcept {
  return -std::expm1(static_cast<double>(count) * std::log(decay));
}

double corrected(const SavedThreshold& saved) noexcept {
  return saved.average / weight_of(saved.decay, saved.observed);
}

// Bias-corrected, of values oldest first.
double average_of(std::span<const double> values, double decay) noexcept {
  double average = 0;
  for (const double value : values) average = decay * average + (1 - decay) * value;
  return average / weight_of(decay, static_cast<std::int64_t>(values.size()));
}

// As many of the latest values as the window holds; one that has become longer than what is remembered fills up again.
void fill_window(std::span<const double> values, const ThresholdOptions& options, ThresholdState& state) {
  const std::size_t size = state.window.size();
  const std::size_t count = std::min(values.size(), size);
  if (std::cmp_less(count, std::min<std::int64_t>(state.observed, options.window)))
    state.observed = static_cast<std::int64_t>(count);
  const std::size_t oldest = static_cast<std::size_t>(state.observed) - count;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[values.size() - count + i];
    state.window[(oldest + i) % size] = state.sorted[i] = value;
  }
  std::sort(state.sorted.begin(), state.sorted.begin() + static_cast<std::ptrdiff_t>(count));
}

const char* name_of(ThresholdKind kind) noexcept {
  return kind == ThresholdKind::constant ? "constant" : kind == ThresholdKind::ema ? "ema" : "quantile";
}

std::string described(const SavedThreshold& saved) {
  return saved.kind == ThresholdKind::ema ? detail::concat("ema(", saved.decay, ")") : name_of(saved.kind);
}

// What happens to the past on the way from `saved` to `options`; a state of the same kind is whole.
const char* fate(const SavedThreshold& saved, const ThresholdOptions& options) noexcept {
  if (saved.kind == options.kind) return "its average is kept, as the new decay weighs it";
  if (options.kind == ThresholdKind::constant) return "a constant threshold keeps no past";
  if (saved.kind == ThresholdKind::constant) return "a constant threshold has no past to give, the new one starts anew";
  if (options.kind == ThresholdKind::ema) return "the average starts from the window's values";
  return "the window starts with the average as its only value";
}

}  // namespace

ThresholdState restored(const SavedThreshold& saved, const ThresholdOptions& options, std::string* note) {
  ThresholdState state = make_threshold_state(options);
  if (saved.observed == 0) return state;
  const bool whole = saved.kind == options.kind && (options.kind != ThresholdKind::ema || saved.decay == options.decay);
  if (note != nullptr && !whole)
    *note = detail::concat("threshold ", described(saved), " -> ", to_string(options), ": ", fate(saved, options));
  if (whole) {
    state.observed = saved.observed;
    state.average = saved.average;
    if (options.kind == ThresholdKind::quantile) fill_window(saved.values, options, state);
  } else if (options.kind == ThresholdKind::ema && saved.kind != ThresholdKind::constant) {
    state.observed = saved.observed;
    const double average =
        saved.kind == ThresholdKind::ema ? corrected(saved) : average_of(saved.values, options.decay);
    state.average = average * weight_of(options.decay, saved.observed);
  } else if (options.kind == ThresholdKind::quantile && saved.kind == ThresholdKind::ema) {
    const double average = corrected(saved);
    state.observed = 1;
    fill_window({&average, 1}, options, state);
  }
  return state;
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// From past sigma_max to tau. A policy knows only the past: tau is asked first, the gradient is clipped, then sigma_max
// of the *unclipped* gradient is observed. Options say what, state is plain data, two functions connect them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "spectralclip/export.h"

namespace spectralclip {

enum class ThresholdKind : std::uint8_t { constant = 0, ema = 1, quantile = 2 };
enum class FirstStep : std::uint8_t { unclipped = 0, zero = 1 };    // zero: the paper's tau_{-1} = 0
enum class Interpolation : std::uint8_t { lower = 0, linear = 1 };  // lower: published clipper; linear: numpy's

struct ThresholdOptions {
  ThresholdKind kind = ThresholdKind::ema;
  double tau = 1.0;           // constant
  double decay = 0.9;         // ema: theta of the paper, in (0, 1)
  double quantile = 0.85;     // quantile: q in [0, 1] …
  std::int64_t window = 100;  // … of the last `window` values
  FirstStep first_step = FirstStep::unclipped;
  Interpolation interpolation = Interpolation::lower;
  double slack = 1.0;  // tau is multiplied by this …
  double floor = 0.0;  // … then kept within [floor, cap]
  double cap = std::numeric_limits<double>::infinity();
  std::int64_t warmup_steps = 0;  // observe this many values before the first clip
  bool observe_zeros = false;     // a zero gradient says nothing about scale; true reproduces the published clipper

  friend bool operator==(const ThresholdOptions&, const ThresholdOptions&) = default;
};

// Throws InvalidArgument naming the option, its value and its range.
SPECTRALCLIP_EXPORT void validate(const ThresholdOptions& options);

struct ThresholdState {
  std::int64_t observed = 0;   // values observed so far
  double average = 0;          // ema, not yet bias-corrected
  std::vector<double> window;  // ring of the last values; slot observed % window.size() is written next
  std::vector<double> sorted;  // the same values in order, so that a quantile is a look-up
};

[[nodiscard]] SPECTRALCLIP_EXPORT ThresholdState make_threshold_state(const ThresholdOptions& options);

// tau for the coming gradient; infinity means "leave it unclipped".
[[nodiscard]] SPECTRALCLIP_EXPORT double threshold(const ThresholdOptions& options, const ThresholdState& state);

// Records sigma_max of the unclipped gradient. Non-finite or negative values are refused (returns false, state as it
// was).
SPECTRALCLIP_EXPORT bool observe(const ThresholdOptions& options, ThresholdState& state, double sigma_max);

// "ema(0.9)", "quantile(0.85, window 100, linear)", "constant(1)": for reports and logs.
[[nodiscard]] SPECTRALCLIP_EXPORT std::string to_string(const ThresholdOptions& options);

}  // namespace spectralclip

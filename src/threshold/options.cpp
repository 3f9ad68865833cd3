// SPDX-License-Identifier: Apache-2.0
// Ranges and names of threshold options. Every option is checked, those of the other kinds too: a NaN that is idle
// today becomes active with one changed `kind`.
#include <charconv>
#include <cmath>
#include <string>

#include "require.h"
#include "spectralclip/threshold.h"

namespace spectralclip {
namespace {

// 16 MiB of state per layer; an observation costs O(window).
constexpr std::int64_t kLargestWindow = std::int64_t{1} << 20;

void validate_policy(const ThresholdOptions& options) {
  SPECTRALCLIP_REQUIRE(options.kind <= ThresholdKind::quantile, "threshold kind = ", static_cast<int>(options.kind),
                       " is none of constant (0), ema (1), quantile (2)");
  SPECTRALCLIP_REQUIRE(options.first_step <= FirstStep::zero, "first_step = ", static_cast<int>(options.first_step),
                       " is neither unclipped (0) nor zero (1)");
  SPECTRALCLIP_REQUIRE(options.interpolation <= Interpolation::linear,
                       "interpolation = ", static_cast<int>(options.interpolation),
                       " is neither lower (0) nor linear (1)");
  SPECTRALCLIP_REQUIRE(options.tau >= 0, "tau = ", options.tau, " must lie in [0, infinity]");
  SPECTRALCLIP_REQUIRE(options.decay > 0 && options.decay < 1, "decay = ", options.decay, " must lie in (0, 1)");
  SPECTRALCLIP_REQUIRE(options.quantile >= 0 && options.quantile <= 1, "quantile = ", options.quantile,
                       " must lie in [0, 1]");
  SPECTRALCLIP_REQUIRE(options.window >= 1 && options.window <= kLargestWindow, "window = ", options.window,
                       " must lie in [1, ", kLargestWindow, "]");
}

void validate_limits(const ThresholdOptions& options) {
  SPECTRALCLIP_REQUIRE(options.slack > 0 && std::isfinite(options.slack), "slack = ", options.slack,
                       " must be finite and > 0");
  SPECTRALCLIP_REQUIRE(options.floor >= 0 && std::isfinite(options.floor), "floor = ", options.floor,
                       " must be finite and >= 0");
  SPECTRALCLIP_REQUIRE(options.cap >= options.floor, "cap = ", options.cap,
                       " must lie in [floor, infinity], floor = ", options.floor);
  SPECTRALCLIP_REQUIRE(options.warmup_steps >= 0, "warmup_steps = ", options.warmup_steps, " must be >= 0");
}

// Shortest text that reads back as the same number; independent of the locale.
std::string number(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

std::string policy_text(const ThresholdOptions& options) {
  switch (options.kind) {
    case ThresholdKind::constant:
      return "constant(" + number(options.tau);
    case ThresholdKind::ema:
      return "ema(" + number(options.decay);
    case ThresholdKind::quantile:
      return "quantile(" + number(options.quantile) + ", window " + std::to_string(options.window) +
             (options.interpolation == Interpolation::linear ? ", linear" : ", lower");
  }
  return "unknown(";
}

}  // namespace

void validate(const ThresholdOptions& options) {
  validate_policy(options);
  validate_limits(options);
}

std::string to_string(const ThresholdOptions& options) {
  const ThresholdOptions defaults;
  const bool adaptive = options.kind != ThresholdKind::constant;
  std::string text = policy_text(options);
  if (adaptive && options.first_step == FirstStep::zero) text += ", first step zero";
  if (adaptive && options.observe_zeros) text += ", zeros observed";
  if (options.slack != defaults.slack) text += ", slack " + number(options.slack);
  if (options.floor != defaults.floor) text += ", floor " + number(options.floor);
  if (options.cap != defaults.cap) text += ", cap " + number(options.cap);
  if (options.warmup_steps != 0) text += ", warm-up " + std::to_string(options.warmup_steps);
  return text + ")";
}

}  // namespace spectralclip

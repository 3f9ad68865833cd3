// SPDX-License-Identifier: Apache-2.0
// Products and sums are separate operators, as in the core, where contraction is off: no fused multiply-add may differ.
#include "aten/thresholds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "constants.h"
#include "require.h"
#include "threshold/state_check.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

std::int64_t filled_slots(const ThresholdOptions& options, std::int64_t observed) {
  return std::min(observed, options.window);
}

}  // namespace

BatchThresholds::BatchThresholds(const ThresholdOptions& options, std::int64_t layers, const at::Device& device)
    : options_(options) {
  validate(options);
  SPECTRALCLIP_REQUIRE(layers >= 1, "thresholds of ", layers, " layers");
  const auto numbers = at::dtype(at::kDouble).device(device);
  observed_ = at::zeros({layers}, numbers.dtype(at::kLong));
  average_ = at::zeros({layers}, numbers);
  const bool windowed = options.kind == ThresholdKind::quantile;
  window_ = at::full({layers, windowed ? options.window : 0}, kInfinity, numbers);
}

bool BatchThresholds::may_be_zero() const noexcept {
  if (options_.floor > 0) return false;
  if (options_.kind == ThresholdKind::constant) return options_.tau * options_.slack == 0 || options_.cap == 0;
  // Otherwise tau is a mean or a quantile of positive numbers; they could underflow only below 1e-300.
  return options_.cap == 0 || options_.observe_zeros || options_.first_step == FirstStep::zero;
}

// average / (1 - decay^observed); masked by the caller where nothing was observed (0 / 0).
Tensor BatchThresholds::corrected_average() const {
  return average_ / at::expm1(observed_.to(at::kDouble) * std::log(options_.decay)).neg_();
}

// Empty slots hold infinity and are sorted behind the others: quantile_of_sorted on the first `filled`.
Tensor BatchThresholds::window_quantile() const {
  const Tensor sorted = std::get<0>(at::sort(window_, 1));
  const Tensor last = observed_.clamp_max(options_.window).sub_(1).clamp_min_(0);
  const Tensor position = last.to(at::kDouble) * options_.quantile;
  const Tensor below = at::floor(position);
  const Tensor i = below.to(at::kLong);
  const Tensor a = sorted.gather(1, i.unsqueeze(1)).squeeze(1);
  if (options_.interpolation == Interpolation::lower) return a;
  const Tensor b = sorted.gather(1, at::minimum(i + 1, last).unsqueeze(1)).squeeze(1);
  const Tensor t = position - below;
  const Tensor distance = b - a;
  const Tensor between = at::where(t < 0.5, a + distance * t, b - distance * (1 - t));
  return at::where(i >= last, a, between);
}

Tensor BatchThresholds::tau() const {
  Tensor raw = at::full_like(average_, options_.tau);
  if (options_.kind != ThresholdKind::constant) {
    const Tensor past = options_.kind == ThresholdKind::ema ? corrected_average() : window_quantile();
    raw = at::where(observed_ > 0, past, 0.0);
  }
  const Tensor tau = (raw * options_.slack).clamp_(options_.floor, options_.cap);
  const bool waits = options_.kind != ThresholdKind::constant && options_.first_step == FirstStep::unclipped;
  const std::int64_t from = std::max<std::int64_t>(options_.warmup_steps, waits ? 1 : 0);
  return at::where(observed_ < from, kInfinity, tau);
}

void BatchThresholds::slide_window(const Tensor& values, const Tensor& recorded) {
  const Tensor slot = at::remainder(observed_, options_.window).unsqueeze(1);
  const Tensor before = window_.gather(1, slot);
  window_ = window_.scatter(1, slot, at::where(recorded.unsqueeze(1), values.unsqueeze(1), before));
}

void BatchThresholds::observe(const Tensor& values, const Tensor& seen) {
  const bool zeros = options_.observe_zeros || options_.kind == ThresholdKind::constant;
  const Tensor large_enough = zeros ? values >= 0 : values > 0;
  const Tensor recorded = at::isfinite(values).logical_and_(large_enough).logical_and_(seen);
  const Tensor sigma_max = values.abs();  // -0 becomes 0
  if (options_.kind == ThresholdKind::ema) {
    const Tensor average = average_ * options_.decay + sigma_max * (1 - options_.decay);
    average_ = at::where(recorded, average.clamp_max(std::numeric_limits<double>::max()), average_);
  } else if (options_.kind == ThresholdKind::quantile) {
    slide_window(sigma_max, recorded);
  }
  observed_ = observed_ + recorded;
}

std::vector<ThresholdState> BatchThresholds::to_states() const {
  const Tensor observed = observed_.cpu();
  const Tensor average = average_.cpu();
  const Tensor window = window_.cpu().contiguous();
  std::vector<ThresholdState> states;
  for (std::int64_t i = 0; i < observed.size(0); ++i) {
    ThresholdState state = make_threshold_state(options_);
    state.observed = observed.const_data_ptr<std::int64_t>()[i];
    state.average = average.const_data_ptr<double>()[i];
    if (options_.kind == ThresholdKind::quantile) {
      const auto filled = filled_slots(options_, state.observed);
      std::copy_n(window.const_data_ptr<double>() + i * options_.window, filled, state.window.begin());
      std::copy_n(state.window.begin(), filled, state.sorted.begin());
      std::sort(state.sorted.begin(), state.sorted.begin() + filled);
    }
    states.push_back(std::move(state));
  }
  return states;
}

void BatchThresholds::from_states(const std::vector<ThresholdState>& states) {
  const std::int64_t layers = observed_.size(0);
  SPECTRALCLIP_REQUIRE(static_cast<std::int64_t>(states.size()) == layers, states.size(), " threshold states for ",
                       layers, " layers");
  const auto host = at::TensorOptions().dtype(at::kDouble);
  Tensor observed = at::zeros({layers}, host.dtype(at::kLong));
  Tensor average = at::zeros({layers}, host);
  Tensor window = at::full(window_.sizes(), kInfinity, host);
  for (std::int64_t i = 0; i < layers; ++i) {
    const ThresholdState& state = states[static_cast<std::size_t>(i)];
    SPECTRALCLIP_REQUIRE(fits(options_, state), "threshold state ", i, " does not fit ", to_string(options_));
    observed.data_ptr<std::int64_t>()[i] = state.observed;
    average.data_ptr<double>()[i] = state.average;
    if (options_.kind != ThresholdKind::quantile) continue;
    std::copy_n(state.window.begin(), filled_slots(options_, state.observed),
                window.data_ptr<double>() + i * options_.window);
  }
  const at::Device device = observed_.device();
  observed_ = observed.to(device);
  average_ = average.to(device);
  window_ = window.to(device);
}

}  // namespace spectralclip::torch::aten

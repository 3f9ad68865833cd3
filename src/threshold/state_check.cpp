// SPDX-License-Identifier: Apache-2.0
// Consistency of a loaded threshold state. Says only yes or no: the reader of the file knows what to call it.
#include "threshold/state_check.h"

#include <algorithm>
#include <cmath>

namespace spectralclip {
namespace {

bool is_magnitude(double x) noexcept { return std::isfinite(x) && x >= 0; }

// The tail that was never written stays zero, so comparing whole vectors compares the filled parts.
bool window_fits(const ThresholdOptions& options, const ThresholdState& state) {
  const auto size = static_cast<std::size_t>(options.window);
  if (state.window.size() != size || state.sorted.size() != size) return false;
  if (!std::all_of(state.window.begin(), state.window.end(), is_magnitude)) return false;
  const auto filled = static_cast<std::ptrdiff_t>(std::min(state.observed, options.window));
  std::vector<double> expected = state.window;
  std::sort(expected.begin(), expected.begin() + filled);
  return expected == state.sorted &&
         std::all_of(expected.begin() + filled, expected.end(), [](double x) { return x == 0; });
}

}  // namespace

bool fits(const ThresholdOptions& options, const ThresholdState& state) {
  if (state.observed < 0 || !is_magnitude(state.average)) return false;
  if (options.kind == ThresholdKind::quantile) return window_fits(options, state);
  return state.window.empty() && state.sorted.empty();
}

}  // namespace spectralclip

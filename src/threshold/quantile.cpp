// SPDX-License-Identifier: Apache-2.0
// The two quantile definitions the published experiments use, and the insertion that keeps a window in order.
#include "threshold/quantile.h"

#include <cmath>

namespace spectralclip {
namespace {

// From whichever end is nearer, so that t = 0 and t = 1 give a and b exactly and the result stays within [a, b].
double between(double a, double b, double t) noexcept {
  const double distance = b - a;
  return t < 0.5 ? a + distance * t : b - distance * (1 - t);
}

}  // namespace

double quantile_of_sorted(std::span<const double> sorted, double q, Interpolation interpolation) noexcept {
  const std::size_t last = sorted.size() - 1;
  const double position = q * static_cast<double>(last);
  const double below = std::floor(position);
  const auto i = static_cast<std::size_t>(below);
  if (interpolation == Interpolation::lower || i >= last) return sorted[i];
  return between(sorted[i], sorted[i + 1], position - below);
}

void place_sorted(std::span<double> sorted, std::size_t hole, double value) noexcept {
  for (; hole > 0 && sorted[hole - 1] > value; --hole) sorted[hole] = sorted[hole - 1];
  for (; hole + 1 < sorted.size() && sorted[hole + 1] < value; ++hole) sorted[hole] = sorted[hole + 1];
  sorted[hole] = value;
}

}  // namespace spectralclip

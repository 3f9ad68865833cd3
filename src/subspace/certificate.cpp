// SPDX-License-Identifier: Apache-2.0
#include "subspace/certificate.h"

#include <cmath>
#include <numbers>

namespace spectralclip {
namespace {

// log Gamma(f / 2 + 1) = sum of log(i / 2) over i = f, f - 2, … > 0, from Gamma(1) = 1 or Gamma(1 / 2) = sqrt pi.
// (std::lgamma writes a global variable: a data race between layers.)
double log_gamma_of_half(std::int64_t f) {
  double sum = f % 2 == 0 ? 0.0 : 0.5 * std::log(std::numbers::pi);
  for (std::int64_t i = f; i > 0; i -= 2) sum += std::log(0.5 * static_cast<double>(i));
  return sum;
}

}  // namespace

double small_ball_radius_squared(std::int64_t fresh, double failure) {
  // <omega_i, v> has density at most sqrt 2 / (2 sqrt 3) = 1 / sqrt 6 (Ball 1986), so the point of all of them lies in
  // a ball of radius r with probability at most r^f pi^(f/2) / Gamma(f/2 + 1) 6^(-f/2).
  const double f = static_cast<double>(fresh);
  const double log_volume = 0.5 * f * std::log(std::numbers::pi / 6.0) - log_gamma_of_half(fresh);
  return std::exp(2 / f * (std::log(failure) - log_volume));
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "subspace/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

Certificate certify(const CertificateInput& input) {
  const double energy = std::max(input.unseen_energy, 0.0);
  double probe = std::numeric_limits<double>::infinity();
  if (input.fresh > 0) {
    const double radius_squared = small_ball_radius_squared(input.fresh, kEstimateFailure / std::max(input.looks, 1));
    const double unseen =
        std::sqrt(std::sqrt(std::max(input.probe_largest, 0.0) / radius_squared));  // ||H_p||_2 at most
    probe = (unseen + input.left_out) * (unseen + input.left_out);
  }
  const bool certain = energy <= probe;
  return {std::sqrt(input.seen * input.seen + std::min(energy, probe)),
          certain ? BoundKind::certain : BoundKind::estimated};
}

}  // namespace spectralclip

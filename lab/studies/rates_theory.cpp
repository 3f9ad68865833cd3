// SPDX-License-Identifier: Apache-2.0
#include "studies/rates_theory.h"

#include <algorithm>
#include <cmath>

#include "require.h"

namespace spectralclip::lab {
namespace {

// tau^(2-alpha) sigma^alpha: the variance that clipping leaves. Without noise there is none, however large tau is.
double clipped_variance(const TheoryInput& in, double tau) {
  return in.sigma_power > 0 ? std::pow(tau, 2 - in.alpha) * in.sigma_power : 0;
}

// E |x|^alpha of scale * chi with `dimensions` degrees of freedom.
double chi_moment(double scale, double dimensions, double alpha) {
  return std::pow(scale, alpha) * std::exp2(alpha / 2) *
         std::exp(std::lgamma((dimensions + alpha) / 2) - std::lgamma(dimensions / 2));
}

double pareto_moment(double scale, double tail, double alpha) {
  SPECTRALCLIP_REQUIRE(tail > alpha, "the tail index ", tail, " of the noise is not above alpha = ", alpha,
                       ", so that its moment is infinite");
  return std::pow(scale, alpha) * tail / (tail - alpha);
}

}  // namespace

double TheoryInput::sigma() const { return std::pow(sigma_power, 1 / alpha); }

Schedule theorem1_schedule(const TheoryInput& in, double K, double tau) {
  return {.eta = 1 / (4 * in.L * std::sqrt(K)), .tau = tau};
}

Schedule theorem2_schedule(const TheoryInput& in, double K) {
  const double sigma = in.sigma();
  const double tau = std::max({2.0, 8 * sigma, sigma * std::pow(K, 1 / (3 * in.alpha - 2))});
  return {.eta = std::min(1 / (4 * in.d * in.L), 1 / (std::pow(tau, in.alpha) * in.L)), .tau = tau};
}

double theorem1_bound(const TheoryInput& in, const Schedule& schedule, double K, double mean_delta) {
  const double C = std::exp2(4 - in.alpha) * std::pow(in.d, 1 - in.alpha / 2);
  return (16 * in.L * in.gap + C * clipped_variance(in, schedule.tau) / 8) / std::sqrt(K) + 2 * mean_delta;
}

double theorem2_bound(const TheoryInput& in, const Schedule& schedule, double K) {
  const double bias = 32 * std::pow(schedule.tau, -2 * (in.alpha - 1)) * in.sigma_power * in.sigma_power;
  return 4 * in.gap / (schedule.eta * K) + bias + 8 * schedule.eta * in.d * in.L * clipped_variance(in, schedule.tau);
}

double theorem2_exponent(double alpha) { return (2 - 2 * alpha) / (3 * alpha - 2); }

double noise_moment(const NoiseConfig& noise, std::int64_t rows, std::int64_t cols, double alpha) {
  const auto entries = static_cast<double>(rows * cols);
  const auto rank = static_cast<double>(std::min({noise.rank, rows, cols}));
  switch (parse_noise_kind(noise.kind)) {
    case NoiseKind::none:
      break;
    case NoiseKind::gaussian:
      return chi_moment(noise.scale, entries, alpha);
    case NoiseKind::rank_gaussian:
      return rank * chi_moment(noise.scale, 1, alpha);
    case NoiseKind::pareto:
      return entries * pareto_moment(noise.scale, noise.alpha, alpha);
    case NoiseKind::rank_pareto:
      return rank * pareto_moment(noise.scale, noise.alpha, alpha);
  }
  return 0;
}

}  // namespace spectralclip::lab

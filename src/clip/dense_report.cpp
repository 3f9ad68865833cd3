// SPDX-License-Identifier: Apache-2.0
// Sums run over the spectrum, so that a removed energy near 0 or 1 keeps its digits.
#include "clip/dense_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clip/dead_band.h"
#include "clip/dense.h"

namespace spectralclip {
namespace {

// Smallest positive number of a storage type.
double smallest_of(ScalarType storage) {
  switch (storage) {
    case ScalarType::float64:
      return std::numeric_limits<double>::denorm_min();
    case ScalarType::bfloat16:
      return 0x1p-133;
    case ScalarType::float16:
      return 0x1p-24;
    case ScalarType::float32:
      break;
  }
  return std::numeric_limits<float>::denorm_min();
}

ClipReport empty_report(const DenseProblem& problem, Method method, ClipStatus status) {
  ClipReport report;
  report.status = status;
  report.method = method;
  report.tau = problem.tau;
  report.passes = 1;
  return report;
}

}  // namespace

DenseProblem::DenseProblem(const AnyMatrix& G_, double tau_)
    : G(G_), tau(tau_), size(measure_magnitude(G_)), tau_scaled(tau_ * size.scale) {}

DenseProblem::DenseProblem(const AnyMatrix& G_, double tau_, const Magnitude& size_)
    : G(G_), tau(tau_), size(size_), tau_scaled(tau_ * size_.scale) {}

ClipReport trivial_report(const DenseProblem& problem, Method method) {
  if (problem.size.finite) return empty_report(problem, method, ClipStatus::ok);
  return not_finite_report(problem.tau, method);
}

ClipReport not_finite_report(double tau, Method method) {
  ClipReport report;
  report.status = ClipStatus::not_finite;
  report.method = method;
  report.tau = tau;
  report.passes = 1;
  report.sigma_max = report.norm_before = report.norm_after = report.sigma_bound =
      std::numeric_limits<double>::quiet_NaN();
  return report;
}

ClipReport failed_report(const DenseProblem& problem, Method method) {
  return empty_report(problem, method, ClipStatus::factorization_failed);
}

Eigen::Index count_above(const DenseProblem& problem, const Eigen::VectorXd& sigma, double floor) {
  const double level = std::max(problem.tau_scaled * (1 + dead_band(problem.G.type)), floor);
  return (sigma.array() > level).count();
}

double storage_rounding(const AnyMatrix& G, double norm) {
  return storage_epsilon(G.type) * norm + smallest_of(G.type) * std::sqrt(static_cast<double>(G.entries()));
}

double dense_rounding(const AnyMatrix& G) {
  return std::sqrt(static_cast<double>(std::max(G.rows, G.cols))) * std::numeric_limits<double>::epsilon();
}

double gram_ratio_limit(ScalarType storage) noexcept { return storage == ScalarType::float64 ? 8 : 1e5; }

ClipReport spectrum_report(const DenseProblem& problem, Method method, const Eigen::VectorXd& sigma,
                           const Eigen::VectorXd& after, Eigen::Index clipped, double error) {
  const double unscale = problem.size.unscale;
  const double energy = sigma.squaredNorm();
  const double removed = ((sigma - after).array() * (sigma + after).array()).sum();
  ClipReport report = empty_report(problem, method, ClipStatus::ok);
  report.passes = 2;
  report.sigma_max = sigma[0] * unscale;
  report.clipped = clipped;
  report.norm_before = sigma.norm() * unscale;
  report.norm_after = after.norm() * unscale;
  report.removed_energy = energy > 0 ? std::clamp(removed / energy, 0.0, 1.0) : 0.0;
  report.sigma_bound = (after.maxCoeff() + error) * unscale;
  if (!std::isfinite(report.sigma_max) || !std::isfinite(report.norm_before)) {
    report.status = ClipStatus::out_of_range;
    report.clipped = 0;
    report.norm_after = report.norm_before;
    report.removed_energy = 0;
    report.sigma_bound = report.sigma_max;
    return report;
  }
  if (clipped == 0) return report;
  report.sigma_bound += storage_rounding(problem.G, report.norm_after);
  report.error_estimate = error / (sigma - after).norm();
  return report;
}

}  // namespace spectralclip

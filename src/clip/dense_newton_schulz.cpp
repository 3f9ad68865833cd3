// SPDX-License-Identifier: Apache-2.0
// Products only. On the smaller Gram side, with A = W W^T, W = G or G^T (r x N, r <= N) and A scaled to norm 1:
//   X = A - t I,  |X| = X sign(X),  M = (A + t I + |X|) / 2 = max(A, t I),  G' = tau M^(-1/2) G,  t = tau^2.
// sign(X) is slow only where |x| is small, and there its error is multiplied by |x|: eigenvalues closer to t than
// eps_work t may keep any sign in between, which moves the result by less than eps_work tau. M >= t I by construction,
// so the condition of the root is (sigma_max / tau)^2 at most.
// Cost: about log(1 / l) / log(2.5) + 5 steps of 3 r^3 flops for the sign (l = eps_work t / 8), and about
// log(sigma_max / tau) / log(2.5) + 5 steps of 6 r^3 for the root; 768 x 3072 takes about 9 s on one core.
#include <algorithm>
#include <cmath>
#include <utility>

#include "clip/dead_band.h"
#include "clip/dense.h"
#include "clip/dense_report.h"
#include "clip/entries.h"
#include "clip/gram_side.h"
#include "constants.h"
#include "factor/matrix_sign.h"

namespace spectralclip {
namespace {

using Eigen::MatrixXd;

// The Gram matrix costs k eps (sigma_max / tau)^2 / 2 relative to tau as in gram_ratio_limit; measured k is
// below 5 and no larger than gram's, but nothing proves it for the coupled iteration: a limit three to ten times lower.
double newton_schulz_ratio_limit(ScalarType storage) { return storage == ScalarType::float64 ? 5 : 1e4; }

// max(A, t I) for A (r x r, full) with spectrum in [0, 1] and 0 <= t < 1.
struct Raised {
  MatrixXd M;
  double above = 0;  // trace of (I + sign(X)) / 2: how many eigenvalues exceed t
  double error = 0;  // ||X - X S^2||_F >= || |X| - X S ||_F
};

MatrixXd shifted(const MatrixXd& A, double t) {
  MatrixXd X = A;
  X.diagonal().array() -= t;
  return X;
}

Raised raise_spectrum(const MatrixXd& A, double t, double resolution) {
  const double radius = std::max(t, 1 - t);
  const MatrixXd X = shifted(A, t);
  const MatrixXd S = factor::matrix_sign(X / radius, std::max(resolution * t / radius, kEps));
  const MatrixXd absolute = X * S;
  Raised raised;
  raised.above = (static_cast<double>(A.rows()) + S.trace()) / 2;
  raised.error = (X - absolute * S).norm();
  raised.M = (A + (absolute + absolute.transpose()) / 2) / 2;
  raised.M.diagonal().array() += t / 2;
  return raised;
}

MatrixXd full_gram(const DenseProblem& problem) {
  const MatrixXd lower = gram_of(problem.G, smaller_side(problem.G), problem.size.scale);
  return lower.selfadjointView<Eigen::Lower>();
}

std::int64_t to_count(double above, Eigen::Index r) {
  return std::clamp<std::int64_t>(std::llround(above), 1, static_cast<std::int64_t>(r));
}

// What the products tell: bounds on sigma_max, ||G||_F from the trace.
ClipReport measured(const DenseProblem& problem, const factor::EigenvalueBounds& lambda, double trace) {
  ClipReport report = trivial_report(problem, Method::newton_schulz);
  report.passes = 2;
  report.sigma_max = std::sqrt(lambda.low) * problem.size.unscale;
  report.norm_before = report.norm_after = std::sqrt(trace) * problem.size.unscale;
  report.sigma_bound = std::sqrt(lambda.high) * problem.size.unscale;
  report.bound_kind = BoundKind::estimated;
  if (!std::isfinite(report.sigma_bound) || !std::isfinite(report.norm_before))
    report.status = ClipStatus::out_of_range;
  return report;
}

// energy_after: ||G'||_F^2 in scaled units; excess: relative to tau, how far the largest value may lie above it.
void finish(const DenseProblem& problem, double trace, double energy_after, double excess, ClipReport& report) {
  report.norm_after = std::sqrt(energy_after) * problem.size.unscale;
  report.removed_energy = std::clamp(1 - energy_after / trace, 0.0, 1.0);
  report.sigma_bound = problem.tau * (1 + excess) + storage_rounding(problem.G, report.norm_after);
}

// tau = 0: the result is zero; eigenvalues above the noise of A are counted.
void clip_to_zero(const DenseProblem& problem, const MatrixXd& A, bool write, ClipReport& report) {
  const double floor = 8 * dense_rounding(problem.G);
  report.clipped = to_count(raise_spectrum(A, floor, kEps / floor).above, A.rows());
  finish(problem, A.trace(), 0.0, 0.0, report);
  if (write) fill_zero(problem.G);
}

// A: r x r with norm at most 1, t = tau^2 in the same units.
void clip_by_products(const DenseProblem& problem, const MatrixXd& A, double t, bool write, ClipReport& report) {
  const AnyMatrix& G = problem.G;
  Raised raised = raise_spectrum(A, t, work_epsilon(G.type) / 8);
  const factor::InverseRoot root = factor::inverse_square_root(std::move(raised.M), t);
  const MatrixXd F = std::sqrt(t) * root.Z;

  // ||F A F|| <= t ||Z M Z|| (1 + error / (2 t)); tr(F A F) is the energy that is left.
  const double rounding = 8 * dense_rounding(G) / t;
  const double excess = root.residual + raised.error / (2 * t) + rounding;
  const double trace = A.trace();
  const double energy_after = (F * A).cwiseProduct(F).sum();
  report.clipped = to_count(raised.above, A.rows());
  const double scale = std::pow(report.norm_before * problem.size.scale, 2) / trace;  // A was divided by this
  finish(problem, trace * scale, energy_after * scale, excess, report);
  report.error_estimate = excess * std::sqrt(t / std::max(trace - energy_after, kEps * trace));
  if (write) apply_factor(G, smaller_side(G), problem.size, F);
}

}  // namespace

ClipReport clip_newton_schulz(const AnyMatrix& G, double tau, bool write) {
  const DenseProblem problem(G, tau);
  if (problem.trivial()) return trivial_report(problem, Method::newton_schulz);
  const MatrixXd A = full_gram(problem);
  const factor::EigenvalueBounds lambda = factor::bound_largest_eigenvalue(A);
  ClipReport report = measured(problem, lambda, A.trace());

  const double sigma_max = std::sqrt(lambda.low);
  if (report.status == ClipStatus::out_of_range || sigma_max <= problem.tau_scaled * (1 + dead_band(G.type)))
    return report;
  const MatrixXd unit = A / lambda.high;
  if (!(problem.tau_scaled > 0)) {
    clip_to_zero(problem, unit, write, report);
    return report;
  }
  if (sigma_max > newton_schulz_ratio_limit(G.type) * problem.tau_scaled) {
    report = clip_exact(G, tau, write);
    report.passes += 2;
    return report;
  }
  clip_by_products(problem, unit, problem.tau_scaled * problem.tau_scaled / lambda.high, write, report);
  return report;
}

}  // namespace spectralclip

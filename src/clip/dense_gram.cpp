// SPDX-License-Identifier: Apache-2.0
// With V_c the eigenvectors of G^T G above tau^2: G' = G (I - V_c diag(1 - tau / sigma) V_c^T), and the mirror of it
// for m < n. All values come first; vectors only when something is clipped, and only those (768 x 3072 with a few
// clipped: an eighth of a full SVD; with all of them, less than half).
#include "clip/dense_gram.h"

#include <cmath>
#include <limits>
#include <utility>

#include "clip/dense.h"
#include "clip/entries.h"
#include "clip/factors.h"
#include "clip/gram_side.h"
#include "factor/gram_eigen.h"

namespace spectralclip {
namespace {

// The error of the result in the spectral norm (dense_report.h): k eps sigma1 (sigma1 / tau) / 2 with k = 8, and what
// any product loses. Nothing clipped: the error of sigma_max alone.
double gram_error(const DenseProblem& problem, double sigma_max, Eigen::Index clipped) {
  const double rounding = 8 * dense_rounding(problem.G) * sigma_max;
  return clipped > 0 && problem.tau_scaled > 0 ? rounding * (1 + sigma_max / problem.tau_scaled) : rounding;
}

ClipReport clip_exact_instead(const AnyMatrix& G, double tau, bool write, ClipFactors* factors) {
  ClipReport report = clip_exact(G, tau, write);
  if (write && report.written()) FactorWriter(factors).entries(G);
  report.passes += 2;
  return report;
}

}  // namespace

GramPlan plan_gram(const DenseProblem& problem, Eigen::MatrixXd A) {
  GramPlan plan;
  const factor::GramEigen eigen(std::move(A));
  if (!eigen.converged()) return plan;

  const Eigen::VectorXd sigma = eigen.values().cwiseSqrt();
  const double tau_scaled = problem.tau_scaled;
  if (tau_scaled > 0 && sigma[0] > gram_ratio_limit(problem.G.type) * tau_scaled) return plan;

  // tau = 0 needs no vectors; there values below sqrt(eps) sigma_max, the noise of a Gram matrix, are not counted.
  const double floor = std::sqrt(8 * dense_rounding(problem.G)) * sigma[0];
  const Eigen::Index clipped = count_above(problem, sigma, tau_scaled > 0 ? 0.0 : floor);
  Eigen::VectorXd after = sigma;
  after.head(clipped).setConstant(tau_scaled);            // values inside the dead band stay as they are …
  if (clipped > 0 && !(tau_scaled > 0)) after.setZero();  // … and tau = 0 erases what rounding made of zeros too
  plan.report = spectrum_report(problem, Method::gram, sigma, after, clipped, gram_error(problem, sigma[0], clipped));
  plan.suited = true;
  if (plan.report.clipped == 0 || !(tau_scaled > 0)) return plan;
  plan.Q = eigen.leading_vectors(clipped);
  plan.suited = plan.Q.cols() == clipped;
  if (plan.suited) plan.weight = 1 - tau_scaled / sigma.head(clipped).array();
  return plan;
}

ClipReport clip_gram(const AnyMatrix& G, double tau, bool write, ClipFactors* factors) {
  const DenseProblem problem(G, tau);
  if (problem.trivial()) return trivial_report(problem, Method::gram);
  const GramPlan plan = plan_gram(problem, gram_of(G, smaller_side(G), problem.size.scale));
  if (!plan.suited) return clip_exact_instead(G, tau, write, factors);
  if (!write || plan.report.clipped == 0) return plan.report;
  if (problem.tau_scaled > 0) {
    remove_directions(G, smaller_side(G), problem.size, plan.Q, plan.weight);
    FactorWriter(factors).side(smaller_side(G), problem.size.scale, plan.Q, plan.weight);
  } else {
    fill_zero(G);
    FactorWriter(factors).zeros();
  }
  return plan.report;
}

ClipReport clip_gram(const AnyMatrix& G, double tau, bool write) { return clip_gram(G, tau, write, nullptr); }

}  // namespace spectralclip

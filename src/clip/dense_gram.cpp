// SPDX-License-Identifier: Apache-2.0
// With V_c the eigenvectors of G^T G above tau^2: G' = G (I - V_c diag(1 - tau / sigma) V_c^T), and the mirror of it
// for m < n. All values come first; vectors only when something is clipped, and only those (768 x 3072 with a few
// clipped: an eighth of a full SVD; with all of them, less than half).
#include <cmath>
#include <limits>

#include "clip/dense.h"
#include "clip/dense_report.h"
#include "clip/entries.h"
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

ClipReport clip_exact_instead(const AnyMatrix& G, double tau, bool write) {
  ClipReport report = clip_exact(G, tau, write);
  report.passes += 2;
  return report;
}

}  // namespace

ClipReport clip_gram(const AnyMatrix& G, double tau, bool write) {
  const DenseProblem problem(G, tau);
  if (problem.trivial()) return trivial_report(problem, Method::gram);
  const factor::GramEigen eigen(smaller_gram(G, problem.size.scale));
  if (!eigen.converged()) return clip_exact_instead(G, tau, write);

  const Eigen::VectorXd sigma = eigen.values().cwiseSqrt();
  const double tau_scaled = problem.tau_scaled;
  if (tau_scaled > 0 && sigma[0] > gram_ratio_limit(G.type) * tau_scaled) return clip_exact_instead(G, tau, write);

  // tau = 0 needs no vectors; there values below sqrt(eps) sigma_max, the noise of a Gram matrix, are not counted.
  const double floor = std::sqrt(8 * dense_rounding(G)) * sigma[0];
  const Eigen::Index clipped = count_above(problem, sigma, tau_scaled > 0 ? 0.0 : floor);
  Eigen::VectorXd after = sigma;
  after.head(clipped).setConstant(tau_scaled);            // values inside the dead band stay as they are …
  if (clipped > 0 && !(tau_scaled > 0)) after.setZero();  // … and tau = 0 erases what rounding made of zeros too
  const ClipReport report =
      spectrum_report(problem, Method::gram, sigma, after, clipped, gram_error(problem, sigma[0], clipped));
  if (!write || report.clipped == 0) return report;
  if (!(tau_scaled > 0)) {
    fill_zero(G);
    return report;
  }
  const Eigen::MatrixXd Q = eigen.leading_vectors(clipped);
  if (Q.cols() != clipped) return clip_exact_instead(G, tau, write);
  remove_directions(G, problem.size, Q, 1 - tau_scaled / sigma.head(clipped).array());
  return report;
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// C_tau by its definition: G' = U diag(min(sigma, tau)) V^T. Recomposed rather than subtracted from G: then no singular
// value of G' exceeds tau by more than the loss of orthonormality, even when sigma_max / tau is 1e15.
#include "clip/dense.h"
#include "clip/dense_report.h"
#include "factor/dense_svd.h"

namespace spectralclip {

ClipReport clip_exact(const AnyMatrix& G, double tau, bool write) {
  const DenseProblem problem(G, tau);
  if (problem.trivial()) return trivial_report(problem, Method::exact);
  const factor::DenseSvd svd = factor::dense_svd(read_all(G, problem.size.scale));
  if (!svd.converged) return failed_report(problem, Method::exact);

  // Loss of orthonormality and the error of sigma, relative to what is left and to sigma_max.
  const double rounding = factor::kSvdErrorFactor * dense_rounding(G);
  const Eigen::Index clipped = count_above(problem, svd.sigma, rounding * svd.sigma[0]);
  const Eigen::VectorXd after = clipped > 0 ? svd.sigma.cwiseMin(problem.tau_scaled).eval() : svd.sigma;
  const ClipReport report =
      spectrum_report(problem, Method::exact, svd.sigma, after, clipped, rounding * after.maxCoeff());
  if (write && report.clipped > 0) {
    write_all(G, problem.size.unscale, svd.U * after.asDiagonal() * svd.V.transpose());
  }
  return report;
}

}  // namespace spectralclip

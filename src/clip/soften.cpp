// SPDX-License-Identifier: Apache-2.0
// sigma -> sigma / sqrt(1 + sigma^2 / c^2), as G h(G^T G) or h(G G^T) G with h(x) = 1 / sqrt(1 + x / c^2).
// Error: with s_i = sqrt(1 + x_i / c^2), h[x_i, x_j] = -1 / (c^2 s_i s_j (s_i + s_j)), and sigma_i / s_i <= c, so an
// error E of the Gram matrix moves the result by at most ||E|| / (2 c) = k eps sigma1 (sigma1 / c) / 2. No decision
// hangs on it, h being smooth where clipping has its corner. Relative to ||G||_F this is below float32 rounding up
// to sigma1 / c = 1e8, but not below that of float64, so gram_ratio_limit decides here as well.
#include <cmath>

#include "clip/dense_report.h"
#include "clip/gram_side.h"
#include "factor/dense_svd.h"
#include "factor/gram_eigen.h"
#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip {
namespace {

using Eigen::VectorXd;

// 1 / sqrt(1 + (sigma / c)^2); hypot because sigma / c may be as large as 1e300.
VectorXd softening(const VectorXd& sigma, double c) {
  return sigma.unaryExpr([c](double s) { return 1 / std::hypot(1.0, s / c); });
}

ClipReport soften_report(const DenseProblem& problem, Method method, const VectorXd& sigma, const VectorXd& weight,
                         double error) {
  const double floor = factor::kSvdErrorFactor * dense_rounding(problem.G) * sigma[0];
  const Eigen::Index lowered = (sigma.array() > floor).count();
  return spectrum_report(problem, method, sigma, sigma.cwiseProduct(weight), lowered, error);
}

ClipReport soften_by_svd(const DenseProblem& problem) {
  const factor::DenseSvd svd = factor::dense_svd(read_all(problem.G, problem.size.scale));
  if (!svd.converged) return failed_report(problem, Method::exact);
  const VectorXd weight = softening(svd.sigma, problem.tau_scaled);
  const VectorXd after = svd.sigma.cwiseProduct(weight);
  const double error = factor::kSvdErrorFactor * dense_rounding(problem.G) * after[0];
  const ClipReport report = soften_report(problem, Method::exact, svd.sigma, weight, error);  // before: it may fail
  write_all(problem.G, problem.size.unscale, svd.U * after.asDiagonal() * svd.V.transpose());
  return report;
}

}  // namespace

// In the report tau is c and `clipped` counts the singular values that were lowered, that is the numerical rank.
ClipReport soften_singular_values(const AnyMatrix& G, double c) {
  validate(G);
  SPECTRALCLIP_REQUIRE(c > 0 && std::isfinite(c), "c = ", c, " must be finite and > 0");
  const DenseProblem problem(G, c);
  if (problem.trivial()) return trivial_report(problem, Method::gram);
  const double c_scaled = problem.tau_scaled;
  const factor::GramEigen eigen(gram_of(G, smaller_side(G), problem.size.scale));
  const VectorXd sigma = eigen.values().cwiseSqrt();
  if (!eigen.converged() || !(sigma[0] <= gram_ratio_limit(G.type) * c_scaled)) return soften_by_svd(problem);

  const Eigen::MatrixXd Q = eigen.leading_vectors(sigma.size());
  if (Q.cols() != sigma.size()) return soften_by_svd(problem);
  const VectorXd weight = softening(sigma, c_scaled);
  // h = I - Q (1 - h) Q^T, and 1 - h = x / (c^2 s (1 + s)) without cancellation: tiny sigma / c leaves G as it is.
  const VectorXd lost = (sigma / c_scaled).array().square() * weight.array().square() / (1 + weight.array());
  const double error = 8 * dense_rounding(G) * sigma[0] * (1 + sigma[0] / c_scaled);
  const ClipReport report = soften_report(problem, Method::gram, sigma, weight, error);
  remove_directions(G, smaller_side(G), problem.size, Q, lost);
  return report;
}

}  // namespace spectralclip

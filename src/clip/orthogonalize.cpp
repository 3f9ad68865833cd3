// SPDX-License-Identifier: Apache-2.0
// sigma -> 1, zero stays zero: U V^T, what Muon feeds to the weights. Two ways.
// exact: singular values up to max(m, n) eps_work sigma_max count as zero. The work type decides, not the storage: for
// bfloat16 max(m, n) eps would exceed 1.
// newton_schulz: the scaled cubic iteration on G itself. It is told a lower end l = max(m, n) eps_float32 of the
// spectrum (relative to sigma_max) and runs until [l, 1] has reached 1. A singular value below l grows by 2.5 a step
// like all small ones and ends between 0 and 1, in proportion to its size; rounding of exact zeros ends near eps / l.
#include <algorithm>
#include <cmath>
#include <limits>

#include "clip/dead_band.h"
#include "clip/dense_report.h"
#include "factor/dense_svd.h"
#include "factor/matrix_sign.h"
#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

double longer_side(const AnyMatrix& G) { return static_cast<double>(std::max(G.rows, G.cols)); }

// `rank` singular values are now 1. removed_energy is 0 where the norm grew.
ClipReport report_of(const DenseProblem& problem, Method method, double sigma_max, double norm_before,
                     double energy_after, double rank) {
  ClipReport report = trivial_report(problem, method);
  report.passes = 2;
  report.sigma_max = sigma_max * problem.size.unscale;
  report.norm_before = norm_before * problem.size.unscale;
  report.norm_after = std::sqrt(energy_after);
  report.removed_energy = std::clamp(1 - std::pow(report.norm_after / report.norm_before, 2), 0.0, 1.0);
  report.clipped = std::llround(rank);
  report.sigma_bound =
      1 + factor::kSvdErrorFactor * dense_rounding(problem.G) + storage_rounding(problem.G, report.norm_after);
  return report;
}

ClipReport by_svd(const DenseProblem& problem) {
  const AnyMatrix& G = problem.G;
  const factor::DenseSvd svd = factor::dense_svd(read_all(G, problem.size.scale));
  if (!svd.converged) return failed_report(problem, Method::exact);
  const double zero_below = longer_side(G) * work_epsilon(G.type) * svd.sigma[0];
  const Eigen::Index rank = std::max<Eigen::Index>((svd.sigma.array() > zero_below).count(), 1);
  write_all(G, 1.0, svd.U.leftCols(rank) * svd.V.leftCols(rank).transpose());
  const auto energy = static_cast<double>(rank);
  return report_of(problem, Method::exact, svd.sigma[0], svd.sigma.norm(), energy, energy);
}

// W = G or G^T with the shorter side as columns.
ClipReport by_newton_schulz(const DenseProblem& problem) {
  const AnyMatrix& G = problem.G;
  const bool wide = G.rows < G.cols;
  const Panel whole = read_all(G, problem.size.scale);
  MatrixXd W = wide ? MatrixXd(whole.transpose()) : MatrixXd(whole);
  const double norm_before = W.norm();
  const factor::EigenvalueBounds lambda = factor::bound_largest_eigenvalue(W.transpose() * W);
  W /= std::sqrt(lambda.high);
  factor::polar_inplace(W, std::min(longer_side(G) * std::numeric_limits<float>::epsilon(), 0.5));
  const double energy = W.squaredNorm();
  write_all(G, 1.0, wide ? Panel(W.transpose()) : Panel(W));
  ClipReport report = report_of(problem, Method::newton_schulz, std::sqrt(lambda.low), norm_before, energy, energy);
  report.bound_kind = BoundKind::estimated;
  return report;
}

}  // namespace

// In the report tau is 1 and `clipped` the number of singular values that are now 1.
ClipReport orthogonalize(const AnyMatrix& G, Method method) {
  validate(G);
  SPECTRALCLIP_REQUIRE(method == Method::exact || method == Method::newton_schulz, "method = ", to_string(method),
                       ": orthogonalize knows exact and newton_schulz");
  const DenseProblem problem(G, 1.0);
  if (problem.trivial()) return trivial_report(problem, method);
  return method == Method::exact ? by_svd(problem) : by_newton_schulz(problem);
}

}  // namespace spectralclip

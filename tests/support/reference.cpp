// SPDX-License-Identifier: Apache-2.0
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/factorizations.h"
#include "support/oracle.h"

namespace spectralclip::testing {
namespace {

constexpr Eigen::Index kSvdSide = 128;

// A: smaller side first, i.e. G or its transpose, scaled to entries of at most 1.
Eigen::MatrixXd wide_scaled(const Eigen::MatrixXd& G, double scale) {
  return G.rows() <= G.cols() ? Eigen::MatrixXd(G / scale) : Eigen::MatrixXd(G.transpose() / scale);
}

double scale_of(const Eigen::MatrixXd& G) {
  return std::max(G.cwiseAbs().maxCoeff(), std::numeric_limits<double>::min());
}

Eigen::MatrixXd gram_of_wide(const Eigen::MatrixXd& A) {
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(A.rows(), A.rows());
  gram.selfadjointView<Eigen::Lower>().rankUpdate(A);
  return gram;
}

}  // namespace

Eigen::MatrixXd random_basis(Eigen::Index rows, Eigen::Index cols, std::mt19937_64& random) {
  return orthonormal_basis(gaussian(rows, cols, random));
}

Eigen::MatrixXd Reference::removed(double tau) const {
  const Eigen::Index c = above(tau);
  const Eigen::VectorXd excess = sigma.head(c).array() - tau;
  return U.leftCols(c) * excess.asDiagonal() * V.leftCols(c).transpose();
}

Reference known_matrix(const Eigen::MatrixXd& U, const Eigen::VectorXd& sigma, const Eigen::MatrixXd& V) {
  return {U * sigma.asDiagonal() * V.transpose(), U, sigma, V, 0};
}

Reference reference_by_svd(const Eigen::MatrixXd& G) {
  const double scale = scale_of(G);
  const ExtendedSvd svd = jacobi_svd((G / scale).cast<long double>());
  // One-sided rotations of n columns: about eps sqrt(n) in the Frobenius norm (180 eps seen at 64 x 64).
  const double rounding =
      32 * std::numeric_limits<double>::epsilon() * std::sqrt(static_cast<double>(std::max(G.rows(), G.cols())));
  return {G, svd.U.cast<double>(), svd.sigma.cast<double>() * scale, svd.V.cast<double>(), rounding * G.stableNorm()};
}

Reference reference_of(const Reference& known, const Eigen::MatrixXd& stored) {
  if (std::min(stored.rows(), stored.cols()) <= kSvdSide) return reference_by_svd(stored);
  Reference reference = known;
  reference.error = (known.exact - stored).norm();
  return reference;
}

Removed removed_by_gram(const Eigen::MatrixXd& G, double tau) {
  const double scale = scale_of(G);
  const Eigen::MatrixXd A = wide_scaled(G, scale);
  const Eigenpairs eigen = symmetric_eigenpairs(gram_of_wide(A));
  const Eigen::VectorXd sigma = eigen.values.cwiseMax(0).cwiseSqrt() * scale;  // ascending
  const Eigen::Index count = (sigma.array() > tau).count();
  const Eigen::MatrixXd X = eigen.vectors.rightCols(count);
  const Eigen::VectorXd share = 1 - tau / sigma.tail(count).array();
  const Eigen::MatrixXd part = scale * X * share.asDiagonal() * (X.transpose() * A);
  return {G.rows() <= G.cols() ? part : Eigen::MatrixXd(part.transpose()), sigma[sigma.size() - 1], count};
}

double sigma_max_of(const Eigen::MatrixXd& G) {
  const double scale = scale_of(G);
  const Eigen::MatrixXd gram = gram_of_wide(wide_scaled(G, scale));
  const Eigen::VectorXd values = symmetric_eigenvalues(gram);
  return std::sqrt(std::max(0.0, values[gram.rows() - 1])) * scale;
}

// Eigenvalues of the Gram matrix: n eps relative, with room to spare.
double sigma_max_beside(const Eigen::MatrixXd& G, double bound) {
  const double left = sigma_max_of(G);
  const double doubt = 1e-12 * std::max(left, bound);
  return std::abs(left - bound) < doubt && std::min(G.rows(), G.cols()) <= kSvdSide ? spectral_norm(G) : left;
}

double sigma_max_from_below(const Eigen::MatrixXd& G, int iterations) {
  const double scale = scale_of(G);
  std::mt19937_64 random(7);
  Eigen::VectorXd v = gaussian(G.cols(), 1, random);
  double sigma = 0;
  for (int i = 0; i < iterations; ++i) {
    v.normalize();
    const Eigen::VectorXd u = G * v / scale;
    sigma = std::max(sigma, u.norm());
    v = G.transpose() * u / scale;
    if (v.norm() == 0) break;
  }
  return sigma * scale;
}

}  // namespace spectralclip::testing

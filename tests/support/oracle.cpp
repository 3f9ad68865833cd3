// SPDX-License-Identifier: Apache-2.0
#include "support/oracle.h"

#include <algorithm>
#include <cmath>

#include "support/factorizations.h"
#include "support/reference.h"

namespace spectralclip::testing {
namespace {

double scale_of(const Eigen::MatrixXd& G) { return std::max(G.cwiseAbs().maxCoeff(), 1e-300); }

}  // namespace

Eigen::MatrixXd gaussian(Eigen::Index rows, Eigen::Index cols, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  return Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return normal(random); });
}

Eigen::MatrixXd with_spectrum(Eigen::Index rows, Eigen::Index cols, const Eigen::VectorXd& sigma, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Eigen::MatrixXd U = random_basis(rows, sigma.size(), random);
  return U * sigma.asDiagonal() * random_basis(cols, sigma.size(), random).transpose();
}

Oracle::Oracle(const Eigen::MatrixXd& G) {
  const double scale = scale_of(G);
  const ExtendedSvd svd = jacobi_svd((G / scale).cast<long double>());
  U_ = svd.U;
  V_ = svd.V;
  sigma_ = svd.sigma.cast<double>() * scale;
}

Eigen::VectorXd Oracle::sigma() const { return sigma_; }

Eigen::MatrixXd Oracle::mapped(const Eigen::VectorXd& to) const {
  const Extended result = U_ * to.cast<long double>().asDiagonal() * V_.transpose();
  return result.cast<double>();
}

Eigen::MatrixXd Oracle::clipped(double tau) const { return mapped(sigma_.cwiseMin(tau)); }

double spectral_norm(const Eigen::MatrixXd& G) {
  const double scale = scale_of(G);
  return singular_values(G / scale)[0] * scale;
}

}  // namespace spectralclip::testing

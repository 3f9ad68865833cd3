// SPDX-License-Identifier: Apache-2.0
#include "support/factorizations.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace spectralclip::testing {
namespace {

// Rotates columns p, q of A (and of V) so that those of A become orthogonal (Hestenes 1958). False: they were.
bool orthogonalize_pair(Extended& A, Extended& V, Eigen::Index p, Eigen::Index q) {
  const long double a = A.col(p).squaredNorm();
  const long double b = A.col(q).squaredNorm();
  const long double c = A.col(p).dot(A.col(q));
  if (std::abs(c) <= std::numeric_limits<long double>::epsilon() * std::sqrt(a * b)) return false;
  const long double zeta = (b - a) / (2 * c);
  const long double t = std::copysign(1.0L, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const long double cosine = 1 / std::sqrt(1 + t * t);
  const long double sine = cosine * t;
  for (Extended* M : {&A, &V}) {
    const Eigen::Matrix<long double, Eigen::Dynamic, 1> old = M->col(p);
    M->col(p) = cosine * old - sine * M->col(q);
    M->col(q) = sine * old + cosine * M->col(q);
  }
  return true;
}

ExtendedSvd tall_svd(Extended A) {
  const Eigen::Index n = A.cols();
  Extended V = Extended::Identity(n, n);
  bool rotated = true;
  for (int sweep = 0; sweep < 60 && rotated; ++sweep) {
    rotated = false;
    for (Eigen::Index p = 0; p < n; ++p) {
      for (Eigen::Index q = p + 1; q < n; ++q) rotated |= orthogonalize_pair(A, V, p, q);
    }
  }
  std::vector<Eigen::Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) { return A.col(i).norm() > A.col(j).norm(); });
  ExtendedSvd svd{Extended::Zero(A.rows(), n), Eigen::Matrix<long double, Eigen::Dynamic, 1>::Zero(n), Extended(n, n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const Eigen::Index from = order[static_cast<std::size_t>(i)];
    svd.sigma[i] = A.col(from).norm();
    if (svd.sigma[i] > 0) svd.U.col(i) = A.col(from) / svd.sigma[i];
    svd.V.col(i) = V.col(from);
  }
  return svd;
}

}  // namespace

ExtendedSvd jacobi_svd(const Extended& G) {
  if (G.rows() >= G.cols()) return tall_svd(G);
  ExtendedSvd svd = tall_svd(G.transpose());
  std::swap(svd.U, svd.V);
  return svd;
}

Eigen::VectorXd singular_values(const Eigen::MatrixXd& G) {
  return jacobi_svd(G.cast<long double>()).sigma.cast<double>();
}

Eigen::MatrixXd orthonormal_basis(const Eigen::MatrixXd& X) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(X);
  Eigen::MatrixXd Q = qr.householderQ() * Eigen::MatrixXd::Identity(X.rows(), std::min(X.rows(), X.cols()));
  for (Eigen::Index j = 0; j < Q.cols(); ++j) {
    if (qr.matrixQR()(j, j) < 0) Q.col(j) = -Q.col(j);
  }
  return Q;
}

Eigenpairs symmetric_eigenpairs(const Eigen::MatrixXd& A) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(A);
  return {eigen.eigenvalues(), eigen.eigenvectors()};
}

Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& A) {
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(A, Eigen::EigenvaluesOnly).eigenvalues();
}

}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// Tall and wide matrices are first reduced to their square triangular factor (3072 x 768: 1.6 s instead of 3.5 s),
// which goes to JacobiSVD when small and to BDCSVD otherwise.
// BDCSVD of Eigen 3.4.0 is accurate on all spectra we tried except heavily tied ones: with 50 singular values of 2 and
// 50 of 1 it loses three digits (residual 2e-13). So every answer is checked, and one that misses is polished: the
// factors are orthonormal to rounding, hence B = U^T G V is nearly diagonal and a Jacobi sweep or two finishes it.
#include "factor/dense_svd.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <limits>
#include <utility>

namespace spectralclip::factor {
namespace {

using Eigen::MatrixXd;

constexpr Eigen::Index kJacobiBelow = 16;  // where BDCSVD would call Jacobi itself
constexpr unsigned kThin = Eigen::ComputeThinU | Eigen::ComputeThinV;

double distance_from_orthonormal(const MatrixXd& Q) {
  return (Q.transpose() * Q - MatrixXd::Identity(Q.cols(), Q.cols())).norm();
}

// Three products of r x r x r: about 5 % of the factorisation.
bool accurate(const MatrixXd& S, const DenseSvd& svd) {
  const double limit =
      kSvdErrorFactor * std::sqrt(static_cast<double>(S.rows())) * std::numeric_limits<double>::epsilon();
  const double residual = (S - svd.U * svd.sigma.asDiagonal() * svd.V.transpose()).norm();
  return residual <= limit * S.norm() && distance_from_orthonormal(svd.U) <= limit &&
         distance_from_orthonormal(svd.V) <= limit;
}

template <class Solver>
DenseSvd factors_of(const MatrixXd& S) {
  const Solver solver(S, kThin);
  return {.U = solver.matrixU(),
          .sigma = solver.singularValues(),
          .V = solver.matrixV(),
          .converged = solver.info() == Eigen::Success};
}

DenseSvd polished(const MatrixXd& S, const DenseSvd& rough) {
  DenseSvd fine = factors_of<Eigen::JacobiSVD<MatrixXd, Eigen::NoQRPreconditioner>>(rough.U.transpose() * S * rough.V);
  fine.U = rough.U * fine.U;
  fine.V = rough.V * fine.V;
  return fine;
}

// S: r x r.
DenseSvd square_svd(const MatrixXd& S) {
  DenseSvd svd;
  if (S.rows() > kJacobiBelow) {
    svd = factors_of<Eigen::BDCSVD<MatrixXd>>(S);
    if (svd.converged && accurate(S, svd)) return svd;
    svd = polished(S, svd);
    if (svd.converged && accurate(S, svd)) return svd;
  }
  svd = factors_of<Eigen::JacobiSVD<MatrixXd, Eigen::NoQRPreconditioner>>(S);
  svd.converged = svd.converged && accurate(S, svd);
  return svd;
}

// G: m x n with m > n. G = Q R, R = U S V^T.
DenseSvd tall_svd(const MatrixXd& G) {
  const Eigen::HouseholderQR<MatrixXd> qr(G);
  DenseSvd svd = square_svd(qr.matrixQR().topRows(G.cols()).triangularView<Eigen::Upper>());
  MatrixXd U = MatrixXd::Zero(G.rows(), G.cols());
  U.topRows(G.cols()) = svd.U;
  svd.U = qr.householderQ() * U;
  return svd;
}

}  // namespace

DenseSvd dense_svd(const MatrixXd& G) {
  if (G.rows() == G.cols()) return square_svd(G);
  if (G.rows() > G.cols()) return tall_svd(G);
  DenseSvd svd = tall_svd(G.transpose());
  std::swap(svd.U, svd.V);
  return svd;
}

}  // namespace spectralclip::factor

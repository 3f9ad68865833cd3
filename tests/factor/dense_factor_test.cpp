// SPDX-License-Identifier: Apache-2.0
// The float64 factorisations on the spectra that break them: ties, zeros, split tridiagonals, no gap, tiny lower ends.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "constants.h"
#include "factor/dense_svd.h"
#include "factor/gram_eigen.h"
#include "factor/matrix_sign.h"
#include "factor/sturm.h"
#include "factor/tridiagonal_vectors.h"
#include "support/factorizations.h"

namespace spectralclip::factor {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double root(Index n) { return std::sqrt(static_cast<double>(n)); }

MatrixXd orthonormal(Index n, Index r, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const MatrixXd X = MatrixXd::NullaryExpr(n, r, [&] { return normal(random); });
  return spectralclip::testing::orthonormal_basis(X);
}

MatrixXd symmetric(const VectorXd& values) {
  const MatrixXd Q = orthonormal(values.size(), values.size(), 3);
  const MatrixXd A = Q * values.asDiagonal() * Q.transpose();
  return (A + A.transpose()) / 2;
}

double off_identity(const MatrixXd& Q) { return (Q.transpose() * Q - MatrixXd::Identity(Q.cols(), Q.cols())).norm(); }

VectorXd two_ties(Index n) {
  VectorXd values = VectorXd::Ones(n);
  values.head(n / 2).setConstant(2);
  return values;
}

void expect_svd(const MatrixXd& G) {
  const DenseSvd svd = dense_svd(G);
  const double limit = kSvdErrorFactor * root(std::max(G.rows(), G.cols())) * kEps;
  ASSERT_TRUE(svd.converged);
  ASSERT_EQ(svd.U.cols(), std::min(G.rows(), G.cols()));
  EXPECT_LE((G - svd.U * svd.sigma.asDiagonal() * svd.V.transpose()).norm(), limit * G.norm());
  EXPECT_LE(off_identity(svd.U), limit);
  EXPECT_LE(off_identity(svd.V), limit);
  for (Index i = 1; i < svd.sigma.size(); ++i) EXPECT_LE(svd.sigma[i], svd.sigma[i - 1]);
}

TEST(DenseSvd, HardSpectra) {
  const Index n = 100;
  VectorXd half = VectorXd::Ones(n);
  half.tail(n / 2).setZero();
  const VectorXd steep = (VectorXd::LinSpaced(n, 0, 1).array() * -70).exp();
  for (const VectorXd& sigma : {two_ties(n), half, steep}) {
    expect_svd(orthonormal(n, n, 1) * sigma.asDiagonal() * orthonormal(n, n, 2).transpose());
    expect_svd(orthonormal(3 * n, n, 1) * sigma.asDiagonal() * orthonormal(n, n, 2).transpose());
    expect_svd(orthonormal(n, n, 1) * sigma.asDiagonal() * orthonormal(n + 1, n, 2).transpose());
  }
}

TEST(DenseSvd, DegenerateMatrices) {
  expect_svd(MatrixXd::Constant(1, 1, -3));
  expect_svd(MatrixXd::Random(1, 90));
  expect_svd(MatrixXd::Random(90, 1));
  expect_svd(MatrixXd::Zero(40, 30));
  expect_svd(MatrixXd::Identity(60, 60));
  expect_svd(MatrixXd::Ones(64, 64));
  MatrixXd single = MatrixXd::Zero(64, 50);
  single(3, 5) = 1;
  single(10, 2) = 1e-200;
  expect_svd(single);
}

void expect_eigen(const VectorXd& values, Index count) {
  const MatrixXd A = symmetric(values);
  const GramEigen eigen(A);
  ASSERT_TRUE(eigen.converged());
  const Index n = values.size();
  const double limit = 8 * root(n) * kEps * values.maxCoeff();  // measured at most 2
  VectorXd sorted = values;
  std::sort(sorted.data(), sorted.data() + n, std::greater<>());
  EXPECT_LE((eigen.values() - sorted).cwiseAbs().maxCoeff(), limit);
  const MatrixXd V = eigen.leading_vectors(count);
  ASSERT_EQ(V.cols(), count);
  EXPECT_LE(off_identity(V), 16 * root(n) * kEps);  // measured at most 9, all vectors of a matrix without gaps
  EXPECT_LE((A * V - V * eigen.values().head(count).asDiagonal()).norm(), limit * root(count));
}

TEST(GramEigen, FewAndManyVectors) {
  const Index n = 90;
  VectorXd spiked = VectorXd::LinSpaced(n, 0, 1);
  spiked[7] = 1e6;
  for (const VectorXd& values :
       {VectorXd(VectorXd::LinSpaced(n, 0, 1)), VectorXd(two_ties(n)), VectorXd(VectorXd::Ones(n)), spiked}) {
    for (const Index count : {Index{1}, Index{7}, n / 3, n / 3 + 1, n}) expect_eigen(values, count);
  }
  expect_eigen(VectorXd::Constant(1, 5.0), 1);
  expect_eigen(two_ties(2), 1);
}

// A diagonal matrix is a tridiagonal one that splits everywhere: each tie lives in several blocks.
TEST(TridiagonalVectors, SplitMatrixWithTies) {
  const VectorXd diagonal = two_ties(30);
  const VectorXd off = VectorXd::Zero(29);
  const MatrixXd S = tridiagonal_vectors({diagonal, off}, diagonal.head(12));
  ASSERT_EQ(S.cols(), 12);
  EXPECT_LE(off_identity(S), 16 * root(30) * kEps);
  EXPECT_LE((diagonal.asDiagonal() * S - 2 * S).norm(), 16 * root(30) * kEps * 2);
}

TEST(TridiagonalVectors, RefusesAValueThatIsNone) {
  const VectorXd diagonal = two_ties(30);
  EXPECT_EQ(tridiagonal_vectors({diagonal, VectorXd::Zero(29)}, VectorXd::Constant(1, 1.5)).cols(), 0);
}

// The QR algorithm alone is off by up to n eps / 2; a matrix with known eigenvalues shows what the refinement brings.
TEST(Sturm, RefinesToAFewEps) {
  const Index n = 200;
  const VectorXd diagonal = VectorXd::Constant(n, 2);
  const VectorXd off = VectorXd::Constant(n - 1, -1);
  VectorXd truth(n);
  for (Index k = 0; k < n; ++k) {
    truth[k] = 2 + 2 * std::cos(M_PI * static_cast<double>(k + 1) / static_cast<double>(n + 1));
  }
  VectorXd values = truth.array() + 3 * static_cast<double>(n) * kEps * VectorXd::LinSpaced(n, -1, 1).array() * 4;
  refine_eigenvalues({diagonal, off}, values);
  EXPECT_LE((values - truth).cwiseAbs().maxCoeff(), 4 * kEps * 4);
}

TEST(LargestEigenvalue, BoundsHoldWhateverTheGap) {
  VectorXd near = VectorXd::LinSpaced(40, 0.999, 1);
  for (const VectorXd& values :
       {near, VectorXd(VectorXd::Ones(40)), VectorXd(VectorXd::LinSpaced(40, 0, 1)), VectorXd(VectorXd::Ones(1) * 7)}) {
    const EigenvalueBounds bounds = bound_largest_eigenvalue(symmetric(values));
    const double truth = values.maxCoeff();
    const double rounding = 16 * root(values.size()) * kEps;
    EXPECT_LE(bounds.low, truth * (1 + rounding));
    EXPECT_GE(bounds.high, truth * (1 - rounding));
    EXPECT_LE(bounds.high / bounds.low - 1, kEigenvalueGap);
  }
}

TEST(MatrixSign, EqualsTheEigenvalueDefinition) {
  VectorXd x(6);
  x << 1, 0.5, 1e-8, -1e-8, -0.25, -1;
  const MatrixXd Q = orthonormal(6, 6, 3);
  const MatrixXd truth = Q * x.array().sign().matrix().asDiagonal() * Q.transpose();
  const MatrixXd X = symmetric(x);
  const MatrixXd S = matrix_sign(X, 1e-9);
  EXPECT_LE((S - truth).norm(), 64 * root(6) * kEps / 1e-8);  // the sign of x has condition 1 / min |x|
  // What the clip uses is |X|: there the smallest eigenvalues weigh nothing.
  const MatrixXd absolute = Q * x.cwiseAbs().asDiagonal() * Q.transpose();
  EXPECT_LE((X * S - absolute).norm(), 64 * root(6) * kEps);
}

TEST(MatrixSign, InverseSquareRoot) {
  const VectorXd values = (VectorXd::LinSpaced(30, 0, 1).array() * std::log(1e-6)).exp();
  const MatrixXd Q = orthonormal(30, 30, 3);
  const MatrixXd truth = Q * values.cwiseSqrt().cwiseInverse().asDiagonal() * Q.transpose();
  const InverseRoot found = inverse_square_root(symmetric(values), 1e-6);
  EXPECT_LE((found.Z - truth).norm(), 16 * root(30) * kEps / 1e-6 * truth.norm());  // condition 1e6
  EXPECT_LE(found.residual, 16 * root(30) * kEps * std::sqrt(1e6));
}

TEST(MatrixSign, PolarFactorKeepsZeros) {
  VectorXd sigma = VectorXd::LinSpaced(12, 1, 0.01);
  sigma.tail(3).setZero();
  const MatrixXd U = orthonormal(20, 12, 5);
  const MatrixXd V = orthonormal(12, 12, 6);
  MatrixXd X = U * sigma.asDiagonal() * V.transpose();
  polar_inplace(X, 1e-3);
  const MatrixXd truth = U.leftCols(9) * V.leftCols(9).transpose();
  EXPECT_LE((X - truth).norm(), 16 * root(20) * kEps / 1e-3);
}

}  // namespace
}  // namespace spectralclip::factor

// SPDX-License-Identifier: Apache-2.0
// The k x k factorisations of the ATen path against Eigen, and the masked Cholesky against the core's branches.
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <limits>
#include <random>

#include "aten/small_factors.h"
#include "constants.h"
#include "factor/small_eigen.h"
#include "support/compare.h"
#include "support/factorizations.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

MatrixXd symmetric_with(const VectorXd& values, std::mt19937_64& random) {
  const MatrixXd Q = random_basis(values.size(), values.size(), random);
  const MatrixXd A = Q * values.asDiagonal() * Q.transpose();
  return (A + A.transpose()) / 2;
}

at::Tensor stacked(const std::vector<MatrixXd>& matrices) {
  std::vector<at::Tensor> tensors;
  for (const MatrixXd& A : matrices) tensors.push_back(to_tensor(A));
  return at::stack(tensors);
}

double off_diagonal(const MatrixXd& A) { return (A - MatrixXd(A.diagonal().asDiagonal())).norm(); }

// Random, tied, of both signs, rank one and zero, all of one side in one batch.
std::vector<MatrixXd> assorted(Index k, std::mt19937_64& random) {
  std::vector<MatrixXd> matrices;
  for (int i = 0; i < 20; ++i) matrices.push_back(symmetric_with(gaussian(k, 1, random), random));
  matrices.push_back(symmetric_with(VectorXd::Ones(k), random));
  VectorXd tied = VectorXd::Ones(k);
  tied.tail(k / 2).setConstant(-3);
  matrices.push_back(symmetric_with(tied, random));
  matrices.push_back(symmetric_with(VectorXd::Unit(k, 0), random));
  matrices.push_back(MatrixXd::Zero(k, k));
  matrices.push_back(MatrixXd(VectorXd::LinSpaced(k, -1, 1).asDiagonal()));
  return matrices;
}

TEST(AtenJacobi, EigenpairsOfAssortedMatrices) {
  std::mt19937_64 random(1);
  for (const Index k : {1, 2, 3, 7, 8, 12, 16, 20, 24, 32}) {
    const std::vector<MatrixXd> matrices = assorted(k, random);
    const auto eigen = torch::aten::symmetric_eigen(stacked(matrices), torch::aten::sweeps_for(k, at::kDouble));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      SCOPED_TRACE("k = " + std::to_string(k) + ", matrix " + std::to_string(i));
      const MatrixXd X = to_eigen(eigen.vectors[static_cast<std::int64_t>(i)]);
      const VectorXd values = to_eigen(eigen.values[static_cast<std::int64_t>(i)].unsqueeze(1));
      const double rounding = 8 * kEps * static_cast<double>(k) * matrices[i].norm();
      EXPECT_TRUE(close(values, symmetric_eigenvalues(matrices[i]).reverse(), rounding));
      EXPECT_TRUE(close(X.transpose() * X, MatrixXd::Identity(k, k), 8 * kEps * static_cast<double>(k * k)));
      EXPECT_TRUE(close(X.transpose() * matrices[i] * X, values.asDiagonal().toDenseMatrix(), rounding * 4));
    }
  }
}

// The shorter run for float32 work: off the diagonal eps of float32 is left, of the values its square.
TEST(AtenJacobi, FewerSweepsForFloat32) {
  std::mt19937_64 random(9);
  for (const Index k : {8, 12, 16, 24}) {
    const std::vector<MatrixXd> matrices = assorted(k, random);
    const auto eigen = torch::aten::symmetric_eigen(stacked(matrices), torch::aten::sweeps_for(k, at::kFloat));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const MatrixXd X = to_eigen(eigen.vectors[static_cast<std::int64_t>(i)]);
      const double left = off_diagonal(X.transpose() * matrices[i] * X);
      EXPECT_LE(left, std::numeric_limits<float>::epsilon() * matrices[i].norm()) << "k = " << k << ", matrix " << i;
    }
  }
}

// One sweep is not enough: the test above can fail.
TEST(AtenJacobi, OneSweepIsNotEnough) {
  std::mt19937_64 random(2);
  const MatrixXd A = symmetric_with(gaussian(16, 1, random), random);
  const MatrixXd X = to_eigen(torch::aten::symmetric_eigen(stacked({A}), 1).vectors[0]);
  EXPECT_GT(off_diagonal(X.transpose() * A * X), 1e-3 * A.norm());
}

// Small eigenvalues of D C D (C well conditioned, D graded over ten orders) to relative accuracy, as a spike of 1e5
// beside a bulk needs them. The truth: squares of the singular values of the Cholesky factor, in extended precision.
TEST(AtenJacobi, GradedMatricesKeepSmallEigenvalues) {
  std::mt19937_64 random(3);
  for (const Index k : {4, 12, 16, 24}) {
    std::vector<MatrixXd> matrices;
    for (int i = 0; i < 10; ++i) {
      const MatrixXd C =
          MatrixXd::Identity(k, k) + 0.3 / static_cast<double>(k) * symmetric_with(gaussian(k, 1, random), random);
      VectorXd d = (VectorXd::LinSpaced(k, 0, -10).array() * std::log(10.0)).exp();
      std::shuffle(d.begin(), d.end(), random);
      matrices.push_back(d.asDiagonal() * C * d.asDiagonal());
    }
    const auto eigen = torch::aten::symmetric_eigen(stacked(matrices), torch::aten::sweeps_for(k, at::kDouble));
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const Extended L = Eigen::LLT<Extended>(matrices[i].cast<long double>()).matrixL();
      const VectorXd values = jacobi_svd(L).sigma.array().square().cast<double>();
      const VectorXd ours = to_eigen(eigen.values[static_cast<std::int64_t>(i)].unsqueeze(1));
      for (Index j = 0; j < k; ++j) EXPECT_NEAR(ours[j] / values[j], 1, 64 * kEps * static_cast<double>(k));
    }
  }
}

TEST(AtenCholesky, InverseOfAWellConditionedMatrix) {
  std::mt19937_64 random(4);
  for (const Index k : {1, 5, 12, 20}) {
    const MatrixXd X = gaussian(3 * k, k, random);
    const MatrixXd A = X.transpose() * X;
    const auto cholesky = torch::aten::inverse_cholesky(stacked({A}), 1e-12);
    const MatrixXd inverse = to_eigen(cholesky.inverse[0]);
    EXPECT_TRUE(
        close(inverse * A * inverse.transpose(), MatrixXd::Identity(k, k), 100 * kEps * static_cast<double>(k * k)));
    EXPECT_EQ(MatrixXd(inverse.triangularView<Eigen::StrictlyUpper>()).norm(), 0);
    EXPECT_EQ(cholesky.independent.sum().item<std::int64_t>(), k);
  }
}

// Which columns are dropped, and what is left of T^-1: exactly what the core's branches give.
TEST(AtenCholesky, DropsDependentColumnsAsTheCoreDoes) {
  std::mt19937_64 random(5);
  const Index k = 9;
  std::vector<MatrixXd> matrices;
  for (int i = 0; i < 8; ++i) {
    MatrixXd X = gaussian(6 + i % 4, k, random);  // rank 6 to 9
    if (i > 3) X.col(2) = X.col(0) + X.col(1);
    if (i > 5) X.col(4).setZero();
    matrices.push_back(X.transpose() * X);
  }
  const double drop = 1e-10;
  const auto ours = torch::aten::inverse_cholesky(stacked(matrices), drop);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    SCOPED_TRACE(i);
    const RowMajor A = matrices[i];
    RowMajor factor(k, k);
    RowMajor inverse(k, k);
    const Independence independence = inverse_cholesky(A.data(), k, drop, factor.data(), inverse.data());
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_EQ(ours.independent[at].sum().item<std::int64_t>(), independence.columns);
    EXPECT_NEAR(ours.weakest[at].item<double>(), independence.weakest, 1e-4 * independence.weakest);
    EXPECT_TRUE(close(to_eigen(ours.inverse[at]), inverse, 1e-6 * inverse.norm()));
  }
}

TEST(AtenOrthonormalize, SpansTheSameInOrder) {
  std::mt19937_64 random(6);
  MatrixXd X = gaussian(40, 6, random);
  X.col(3) = 2 * X.col(0) - X.col(2);
  const auto result = torch::aten::orthonormalize(stacked({X}), 1e-10);
  const MatrixXd Q = to_eigen(result.Q[0]);
  VectorXd ones = VectorXd::Ones(6);
  ones[3] = 0;
  EXPECT_TRUE(close(Q.transpose() * Q, ones.asDiagonal().toDenseMatrix(), 1e-13));
  for (const Index c : {1, 2, 6}) {  // the first c columns of Q hold the first c columns of X
    const MatrixXd head = Q.leftCols(c);
    EXPECT_TRUE(close(head * (head.transpose() * X.leftCols(c)), X.leftCols(c), 1e-12 * X.norm()));
  }
}

TEST(AtenEigenvalueBound, IsAboveByTheRootItPromises) {
  std::mt19937_64 random(7);
  for (const Index f : {1, 2, 4, 7}) {
    for (const double spread : {0.0, 0.5, 6.0}) {
      const VectorXd values = (gaussian(f, 1, random).array() * spread).exp();
      const MatrixXd K = symmetric_with(values, random);
      const double bound = torch::aten::largest_eigenvalue_bound(stacked({K}))[0].item<double>();
      EXPECT_GE(bound, values.maxCoeff() * (1 - 100 * kEps));
      EXPECT_LE(bound, values.maxCoeff() * std::pow(static_cast<double>(f), 1.0 / 64) * (1 + 100 * kEps));
    }
  }
  EXPECT_EQ(torch::aten::largest_eigenvalue_bound(at::zeros({1, 4, 4}, at::kDouble))[0].item<double>(), 0);
}

}  // namespace
}  // namespace spectralclip::testing

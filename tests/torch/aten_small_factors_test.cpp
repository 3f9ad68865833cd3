// SPDX-License-Identifier: Apache-2.0
// The k x k functions of the ATen path against eigenpairs in float64, on spectra that are hard for them.
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <functional>
#include <random>

#include "aten/small_factors.h"
#include "constants.h"
#include "support/compare.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

struct Known {
  VectorXd values;
  MatrixXd A;
  MatrixXd Q;
  [[nodiscard]] MatrixXd of(const std::function<double(double)>& f) const {
    return Q * values.unaryExpr(f).asDiagonal() * Q.transpose();
  }
};

Known with_values(const VectorXd& values, std::mt19937_64& random) {
  const MatrixXd Q = random_basis(values.size(), values.size(), random);
  const MatrixXd A = Q * values.asDiagonal() * Q.transpose();
  return {values, (A + A.transpose()) / 2, Q};
}

at::Tensor batch_of(const MatrixXd& A) { return to_tensor(A).unsqueeze(0).contiguous(); }
at::Tensor identity_of(Index k) { return at::eye(k, at::kDouble); }

// x^-1/2 on the interval that was asked for; the error falls as the terms say.
TEST(AtenInverseRoot, IsTheRootOnItsInterval) {
  std::mt19937_64 random(1);
  for (const auto& [reach, terms, error] : {std::tuple{1e-6, 24, 1e-6}, {1e-3, 16, 1e-7}, {2.5e-5, 18, 2e-6}}) {
    const Index k = 16;
    const VectorXd values = (VectorXd::LinSpaced(k, 2 * std::log(reach), 0).array()).exp();
    for (const double top : {1.0, 1e12}) {
      const MatrixXd diagonal = (top * values).asDiagonal();
      const auto rational = torch::aten::make_inverse_root(reach, top, terms, identity_of(k));
      const MatrixXd root = to_eigen(torch::aten::inverse_root(batch_of(diagonal), rational)[0]);
      for (Index i = 0; i < k; ++i) EXPECT_NEAR(root(i, i) * std::sqrt(diagonal(i, i)), 1, error) << reach << " " << i;
    }
    const Known known = with_values(values.cwiseMax(1e-6), random);
    const auto rational = torch::aten::make_inverse_root(reach, 1, terms, identity_of(k));
    const MatrixXd root = to_eigen(torch::aten::inverse_root(batch_of(known.A), rational)[0]);
    const double near = (10 * error + 1e-9) * std::sqrt(1 / known.values.minCoeff());
    EXPECT_TRUE(close(root, known.of([](double x) { return 1 / std::sqrt(x); }), near));
  }
}

// Beyond its interval the sum is smaller, never larger.
TEST(AtenInverseRoot, IsSmallerBeyondItsInterval) {
  const auto rational = torch::aten::make_inverse_root(1e-3, 1, 16, identity_of(1));
  for (const double x : {0.0, 1e-9, 1e-7, 10.0, 1e6}) {
    const double root = torch::aten::inverse_root(at::full({1, 1, 1}, x, at::kDouble), rational).item<double>();
    EXPECT_GT(root, 0);
    EXPECT_LE(root, x == 0 ? 1e4 : 1 / std::sqrt(x) * (1 + 1e-6));
  }
}

TEST(AtenSign, TellsValuesApartThatStandOutsideItsReach) {
  std::mt19937_64 random(2);
  const double reach = 2.5e-5;
  const auto rational = torch::aten::make_inverse_root(reach, 1, 18, identity_of(16));
  VectorXd straddling = VectorXd::LinSpaced(16, -1, 1);
  straddling.head(8) << -reach, reach, -2 * reach, 2 * reach, -0.999999, 0.999999, -10 * reach, 10 * reach;
  VectorXd tied = VectorXd::Constant(16, -4 * reach);
  tied.head(3).setConstant(1 - 1e-12);
  for (const VectorXd& values :
       {straddling, tied, VectorXd(VectorXd::Constant(16, -1)), VectorXd(VectorXd::Ones(16))}) {
    const Known known = with_values(values, random);
    const MatrixXd sign = to_eigen(torch::aten::matrix_sign(batch_of(known.A), rational)[0]);
    EXPECT_TRUE(close(sign, known.of([](double x) { return x > 0 ? 1.0 : -1.0; }), 1e-7));
  }
}

TEST(AtenLargestEigenvalue, LiesBetweenItsBounds) {
  std::mt19937_64 random(3);
  const Index k = 16;
  VectorXd spike = VectorXd::LinSpaced(k, 1, 0.1);
  spike[3] = 1e12;
  const VectorXd close_pair = VectorXd::Constant(k, 1 - 1e-5) + 1e-5 * VectorXd::Unit(k, 2);
  for (const VectorXd& values : {spike, close_pair, VectorXd(VectorXd::Ones(k)), VectorXd(VectorXd::Unit(k, 5))}) {
    const Known known = with_values(values, random);
    const auto bounds = torch::aten::largest_eigenvalue(batch_of(known.A));
    const double truth = values.maxCoeff();
    EXPECT_LE(bounds.low.item<double>(), truth * (1 + 100 * kEps));
    EXPECT_GE(bounds.low.item<double>(), truth * (1 - 2e-5));
    EXPECT_GE(bounds.high.item<double>(), truth * (1 - 100 * kEps));
    EXPECT_LE(bounds.high.item<double>(), truth * std::pow(k, 1.0 / 4096) * (1 + 1e-9));
  }
  const auto zero = torch::aten::largest_eigenvalue(at::zeros({1, 4, 4}, at::kDouble));
  EXPECT_EQ(zero.low.item<double>(), 0);
  EXPECT_LE(zero.high.item<double>(), 1e-280);
}

// A contraction of W that is orthonormal but for the ridge, whatever the lengths of W's columns; zeros where there is
// none.
TEST(AtenRidge, MakesAContraction) {
  std::mt19937_64 random(4);
  const Index k = 9;
  for (const int kind : {0, 1, 2}) {
    MatrixXd W = gaussian(40, k, random);
    if (kind == 1) W.col(5) *= 1e8;
    if (kind == 2) {
      W.col(4).setZero();
      W.col(6) = W.col(0) + W.col(1);
    }
    const double ridge = 1e-6;
    const auto factor = torch::aten::ridge_cholesky(batch_of(W.transpose() * W), ridge, identity_of(k));
    const MatrixXd Q = W * to_eigen(factor.inverse[0]).transpose();
    const Eigen::SelfAdjointEigenSolver<MatrixXd> values(Q.transpose() * Q);
    EXPECT_LE(values.eigenvalues().maxCoeff(), 1 + 1e-9);
    if (kind != 2) {
      EXPECT_GE(values.eigenvalues().minCoeff(), 1 - 1e-3);
      continue;
    }
    EXPECT_EQ(Q.col(4).norm(), 0);
    EXPECT_LE(Q.col(6).norm(), 1e-3);  // what depends on others holds nothing
  }
}

TEST(AtenLeadingRows, ComeFirstAndAreOrthonormal) {
  std::mt19937_64 random(5);
  const Index k = 12;
  VectorXd values = VectorXd::LinSpaced(k, 1e-3, 1e-4);
  values[7] = 1e6;
  values[2] = 1;
  values[11] = 0.1;
  const Known known = with_values(values, random);
  const at::Tensor A = batch_of(known.A);
  const at::Tensor trace = at::full({1}, known.A.trace(), at::kDouble);
  const MatrixXd X = to_eigen(torch::aten::leading_rows_first(A, trace, identity_of(k), 3)[0]);
  EXPECT_TRUE(close(X * X.transpose(), MatrixXd::Identity(k, k), 1e-6));
  for (const auto& [row, index] : {std::pair<Index, Index>{0, 7}, {1, 2}, {2, 11}}) {
    EXPECT_GT(std::abs(X.row(row).dot(known.Q.col(index))), 0.99) << row;
  }
}

}  // namespace
}  // namespace spectralclip::testing

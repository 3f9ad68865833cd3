// SPDX-License-Identifier: Apache-2.0
// Eigenpairs, inverse Cholesky and congruence on caller's memory: against Eigen where absolute accuracy is all there is
// to ask, and against inertia counts where (up to kJacobiSide) small eigenvalues of graded matrices must be right to
// their own last digits.
#include "factor/small_eigen.h"
#include "constants.h"
#include "support/factorizations.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <random>

namespace spectralclip {
namespace {

using Eigen::Index;
using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::VectorXd;

constexpr double kSlack = 8;  // constant of the backward error k eps ||A||; measured at most 1 over this file

Square random_square(Index k, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  return Square::NullaryExpr(k, k, [&] { return normal(random); });
}

Square random_symmetric(Index k, unsigned seed) {
  const Square X = random_square(k, seed);
  return X + X.transpose();
}

struct Pairs {
  VectorXd values;
  Square vectors;  // rows
};

Pairs solve(Square A) {
  Pairs p{VectorXd(A.rows()), Square(A.rows(), A.rows())};
  VectorXd work(2 * A.rows());
  symmetric_eigen(A.data(), A.rows(), p.values.data(), p.vectors.data(), work.data());
  return p;
}
VectorXd solve_values(Square A) {
  VectorXd values(A.rows());
  VectorXd work(2 * A.rows());
  symmetric_eigen(A.data(), A.rows(), values.data(), nullptr, work.data());
  return values;
}

// Values against Eigen's, descending, with vectors and without; A = X^T diag(values) X; X orthogonal.
void expect_eigenpairs(const Square& A) {
  const Index k = A.rows();
  const Pairs p = solve(A);
  const VectorXd alone = solve_values(A);
  const double limit = kSlack * static_cast<double>(k) * kEps;
  const VectorXd expected = spectralclip::testing::symmetric_eigenvalues(A).reverse();
  for (Index i = 0; i < k; ++i) {
    EXPECT_LE(std::abs(p.values[i] - expected[i]), limit * A.norm()) << "k = " << k << ", value " << i;
    EXPECT_LE(p.values[i], p.values[std::max<Index>(i - 1, 0)]);
    EXPECT_LE(std::abs(alone[i] - expected[i]), limit * A.norm()) << "k = " << k << ", value " << i << " alone";
    EXPECT_LE(alone[i], alone[std::max<Index>(i - 1, 0)]);
  }
  EXPECT_LE((p.vectors.transpose() * p.values.asDiagonal() * p.vectors - A).norm(), limit * A.norm()) << "k = " << k;
  EXPECT_LE((p.vectors * p.vectors.transpose() - Square::Identity(k, k)).norm(), limit * std::sqrt(k)) << "k = " << k;
}

TEST(SymmetricEigen, RandomMatricesOfEverySize) {
  for (Index k = 1; k <= 64; ++k) expect_eigenpairs(random_symmetric(k, static_cast<unsigned>(k)));
}

TEST(SymmetricEigen, DiagonalStaysAndIsSorted) {
  for (const Index k : {Index{6}, Index{2 * kJacobiSide}}) {
    VectorXd d = VectorXd::Constant(k, 7);
    d.head(6) << 3, -1, 7, 0, 7, 2;
    VectorXd sorted = VectorXd::Constant(k, 7);
    sorted.tail(4) << 3, 2, 0, -1;
    const Square A(d.asDiagonal());
    const Pairs p = solve(A);
    const double rounding = k > kJacobiSide ? 2 * kEps * 7 : 0;  // QL divides by the trace first
    EXPECT_LE((p.values - sorted).cwiseAbs().maxCoeff(), rounding);
    EXPECT_LE((solve_values(A) - sorted).cwiseAbs().maxCoeff(), 2 * kEps * 7);
    EXPECT_EQ(p.vectors.cwiseAbs().sum(), static_cast<double>(k)) << "a permutation";
    expect_eigenpairs(A);
  }
}

TEST(SymmetricEigen, RepeatedValues) {
  for (const Index k : {2, 5, 16, 33}) {
    const Square Q = solve(random_symmetric(k, 7)).vectors;
    VectorXd d = VectorXd::Constant(k, 2);
    d.head(k / 2).setConstant(5);
    Square A = Q.transpose() * d.asDiagonal() * Q;
    A = (A + A.transpose()).eval() / 2;
    expect_eigenpairs(A);
    expect_eigenpairs(Square::Ones(k, k));  // k and k - 1 zeros
    expect_eigenpairs(Square::Identity(k, k));
  }
}

TEST(SymmetricEigen, ZeroMatrix) {
  for (const Index k : {1, 5, 20}) {
    const Pairs p = solve(Square::Zero(k, k));
    EXPECT_EQ(p.values, VectorXd::Zero(k));
    EXPECT_EQ(p.vectors, Square(Square::Identity(k, k)));
    EXPECT_EQ(solve_values(Square::Zero(k, k)), VectorXd::Zero(k));
  }
}

// Squares of the entries would overflow or vanish. Positive matrices, as products are, far beyond others.
TEST(SymmetricEigen, FarFromOne) {
  for (const Index k : {5, 12, 40}) {
    for (const double scale : {1e-120, 1e120}) {
      const Square A = scale * random_symmetric(k, 3);
      const Pairs p = solve(A);
      const double limit = kSlack * static_cast<double>(k) * kEps * A.norm();
      EXPECT_LE((p.vectors.transpose() * p.values.asDiagonal() * p.vectors - A).norm(), limit);
      EXPECT_LE((solve_values(A) - p.values).norm(), limit);
    }
    const Square X = random_square(k, 4);
    const Square B = X * X.transpose();
    const VectorXd expected = spectralclip::testing::symmetric_eigenvalues(B).reverse();
    for (const double scale : {1e-250, 1e250}) {
      const double limit = kSlack * static_cast<double>(k) * kEps * B.norm();
      EXPECT_LE((solve(scale * B).values / scale - expected).norm(), limit) << "k = " << k << ", " << scale;
      EXPECT_LE((solve_values(scale * B) / scale - expected).norm(), limit) << "k = " << k << ", " << scale;
    }
  }
}

// Blocks that do not meet, and a few values over many zeros: the tridiagonal form falls apart.
TEST(SymmetricEigen, MatricesThatFallApart) {
  for (const Index k : {4, 12, 30}) {
    Square blocks = Square::Zero(k, k);
    blocks.topLeftCorner(k / 2, k / 2) = random_symmetric(k / 2, 61);
    blocks.bottomRightCorner(k - k / 2, k - k / 2) = random_symmetric(k - k / 2, 62);
    expect_eigenpairs(blocks);
    const Square low = random_square(k, 63).leftCols(2);
    expect_eigenpairs(Square(low * low.transpose()));
    Square chain = Square::Zero(k, k);  // already tridiagonal, its values come in pairs +-
    for (Index i = 0; i + 1 < k; ++i) chain(i, i + 1) = chain(i + 1, i) = 1;
    expect_eigenpairs(chain);
  }
}

// Eigenvalues of A above mu: positive pivots of A - mu I (Sylvester). In long double, largest entries first, each pivot
// of a graded matrix is good to a few of its own last digits.
Index count_above(const Square& A, double mu) {
  Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic> M = A.cast<long double>();
  M.diagonal().array() -= static_cast<long double>(mu);
  Index positive = 0;
  for (Index j = 0; j < M.rows(); ++j) {
    const long double pivot = M(j, j);
    if (pivot > 0) ++positive;
    for (Index i = j + 1; i < M.rows(); ++i) {
      for (Index l = j + 1; l < M.rows(); ++l) M(i, l) -= M(i, j) * M(j, l) / pivot;
    }
  }
  return positive;
}

// A = D B D, D from 1 to 1e-8 (condition 1e16), B well conditioned. Relative error at most a few k eps cond(B)
// (Demmel and Veselic 1992, theorem 3.1), for each eigenvalue, however small: of Jacobi. Beyond its sizes, and without
// vectors, k eps of the largest is what there is.
Square graded(Index k, double* condition) {
  Square B = 0.2 / std::sqrt(static_cast<double>(k)) * random_symmetric(k, 21);
  B += Square::Identity(k, k) * (1 + 0.2 * 4);
  const VectorXd D = VectorXd::NullaryExpr(
      k, [&](Index i) { return std::pow(10.0, -8.0 * static_cast<double>(i) / static_cast<double>(k - 1)); });
  Square A = D.asDiagonal() * B * D.asDiagonal();
  const VectorXd spectrum = spectralclip::testing::symmetric_eigenvalues(B);
  *condition = spectrum[k - 1] / spectrum[0];
  return (A + A.transpose()) / 2;
}

TEST(SymmetricEigen, GradedMatricesKeepSmallValues) {
  for (const Index k : {Index{2}, Index{5}, Index{8}, Index{kJacobiSide}}) {
    double condition = 0;
    const Square A = graded(k, &condition);
    const double delta = kSlack * static_cast<double>(k) * kEps * condition;
    const Pairs p = solve(A);
    for (Index i = 0; i < k; ++i) {
      EXPECT_LE(count_above(A, p.values[i] * (1 + delta)), i) << "k = " << k << ", value " << i << " too small";
      EXPECT_GE(count_above(A, p.values[i] * (1 - delta)), i + 1) << "k = " << k << ", value " << i << " too large";
    }
  }
}

TEST(SymmetricEigen, GradedMatricesOfAnySizeKeepLargeValues) {
  for (const Index k :
       {Index{2}, Index{8}, Index{kJacobiSide}, Index{kJacobiSide + 1}, Index{16}, Index{40}, Index{64}}) {
    double condition = 0;
    const Square A = graded(k, &condition);
    for (const VectorXd& values : {solve(A).values, solve_values(A)}) {
      const double limit = kSlack * static_cast<double>(k) * kEps * values[0];
      for (Index i = 0; i < k; ++i) {
        EXPECT_LE(count_above(A, values[i] + limit), i) << "k = " << k << ", value " << i << " too small";
        if (values[i] <= limit) continue;  // may be anything down to zero
        EXPECT_GE(count_above(A, values[i] - limit), i + 1) << "k = " << k << ", value " << i << " too large";
      }
    }
    expect_eigenpairs(A);
  }
}

TEST(InverseCholesky, WhitensPositiveMatrices) {
  for (const Index k : {1, 2, 3, 8, 17, 64}) {
    const Square X = random_square(k, 31);
    const Square A = X * X.transpose() + Square::Identity(k, k);
    Square factor(k, k), inverse(k, k);
    EXPECT_EQ(inverse_cholesky(A.data(), k, kEps, factor.data(), inverse.data()).columns, k);
    for (Index i = 0; i < k; ++i) {
      for (Index j = i + 1; j < k; ++j) EXPECT_EQ(inverse(i, j), 0) << "lower triangular";
    }
    const VectorXd spectrum = spectralclip::testing::symmetric_eigenvalues(A);
    const double condition = spectrum[k - 1] / spectrum[0] * static_cast<double>(k);
    EXPECT_LE((inverse * A * inverse.transpose() - Square::Identity(k, k)).norm(),
              kSlack * static_cast<double>(k) * kEps * condition);
  }
}

// Columns 2 and 4 of X depend on earlier ones, 5 is zero: their rows vanish, the others whiten what is left.
TEST(InverseCholesky, LeavesDependentColumnsOut) {
  constexpr Index kSize = 7;
  Square X = random_square(20, 41).leftCols(kSize);
  X.col(2) = 2 * X.col(0) - X.col(1);
  X.col(4) = X.col(3);
  X.col(5).setZero();
  const Square A = X.transpose() * X;
  Square factor(kSize, kSize), inverse(kSize, kSize);
  const double drop = 64 * kSize * kEps;
  EXPECT_EQ(inverse_cholesky(A.data(), kSize, drop, factor.data(), inverse.data()).columns, 4);
  VectorXd expected = VectorXd::Ones(kSize);
  for (const Index i : {2, 4, 5}) {
    EXPECT_EQ(inverse.row(i).cwiseAbs().sum(), 0) << i;
    EXPECT_EQ(inverse.col(i).cwiseAbs().sum(), 0) << i;
    expected[i] = 0;
  }
  const Square whitened = inverse * A * inverse.transpose();
  EXPECT_LE((whitened - Square(expected.asDiagonal())).norm(),
            kSlack * kSize * kEps * A.norm() * inverse.squaredNorm());
}

// drop is relative to the column's own size: a column may be tiny without being dependent.
TEST(InverseCholesky, TinyColumnsAreNotDependentOnes) {
  const double A[4] = {1, 0, 0, 1e-30};
  double factor[4], inverse[4];
  EXPECT_EQ(inverse_cholesky(A, 2, 1e-13, factor, inverse).columns, 2);
  EXPECT_NEAR(inverse[3], 1e15, 4 * kEps * 1e15);
  const double nearly[4] = {1, 1, 1, 1 + 1e-14};
  EXPECT_EQ(inverse_cholesky(nearly, 2, 1e-13, factor, inverse).columns, 1);
}

// 1 / weakest: the most by which a row of L^-1 amplifies relative rounding of A, sum_l (L^-1)_il^2 A_ll.
TEST(InverseCholesky, WeakestIsTheInverseOfTheLargestAmplification) {
  double factor[9], inverse[9];
  const double A[4] = {4, 2, 2, 2};  // L^-1 = [1/2 0; -1/2 1]
  EXPECT_NEAR(inverse_cholesky(A, 2, 1e-13, factor, inverse).weakest, 1.0 / 3, 4 * kEps);
  const double B[9] = {4, 2, 4, 2, 2, 2, 4, 2, 4};  // the third equals the first and does not count
  const Independence independence = inverse_cholesky(B, 3, 1e-13, factor, inverse);
  EXPECT_EQ(independence.columns, 2);
  EXPECT_NEAR(independence.weakest, 1.0 / 3, 4 * kEps);
  const double diagonal[4] = {9, 0, 0, 1e-20};
  EXPECT_EQ(inverse_cholesky(diagonal, 2, 1e-13, factor, inverse).weakest, 1);
  EXPECT_EQ(inverse_cholesky(A, 2, 0.3, factor, inverse).columns, 2) << "an amplification of 3 is below 1 / 0.3 …";
  EXPECT_EQ(inverse_cholesky(A, 2, 0.34, factor, inverse).columns, 1) << "… and above 1 / 0.34";
}

// Amplification gathers over columns each of which is only a little dependent: 1 / pivot would not show it.
TEST(InverseCholesky, AmplificationGathersOverColumns) {
  for (const Index k : {2, 5, 12}) {
    Square L = Square::Identity(k, k);
    for (Index i = 1; i < k; ++i) {
      L(i, i - 1) = -0.9;
      L(i, i) = 0.5;
    }
    const Square A = L * L.transpose();
    Square expected = Square::Zero(k, k);  // of a matrix with two diagonals
    for (Index l = 0; l < k; ++l) {
      double product = 1;
      for (Index i = l; i < k; product *= 0.9 / L(i, i), ++i) expected(i, l) = product / L(i, i);
    }
    ASSERT_LE((expected * L - Square::Identity(k, k)).norm(), 1e-9);
    double largest = 0;
    for (Index i = 0; i < k; ++i) {
      double amplified = 0;
      for (Index l = 0; l < k; ++l) amplified += expected(i, l) * expected(i, l) * A(l, l);
      largest = std::max(largest, amplified);
    }
    Square factor(k, k), inverse(k, k);
    const Independence independence = inverse_cholesky(A.data(), k, 1e-13, factor.data(), inverse.data());
    EXPECT_EQ(independence.columns, k);
    EXPECT_NEAR(independence.weakest * largest, 1, 1e-9);
  }
}

TEST(InverseCholesky, NothingIsIndependentInZero) {
  const Square A = Square::Zero(4, 4);
  Square factor(4, 4), inverse(4, 4);
  EXPECT_EQ(inverse_cholesky(A.data(), 4, 1e-13, factor.data(), inverse.data()).columns, 0);
  EXPECT_EQ(inverse.norm(), 0);
}

TEST(Congruence, IsTheProduct) {
  for (const Index k : {1, 2, 5, 16, 31}) {
    const Square X = random_square(k, 51).triangularView<Eigen::Lower>();
    const Square A = random_symmetric(k, 52);
    Square scratch(k, k), C(k, k);
    congruence(X.data(), A.data(), k, scratch.data(), C.data());
    const double limit = 2 * static_cast<double>(k) * kEps * X.squaredNorm() * A.norm();
    EXPECT_LE((C - X * A * X.transpose()).norm(), limit) << "k = " << k;
    EXPECT_EQ(C, Square(C.transpose())) << "symmetric to the last bit";
  }
}

}  // namespace
}  // namespace spectralclip

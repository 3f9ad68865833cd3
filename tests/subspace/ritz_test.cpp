// SPDX-License-Identifier: Apache-2.0
// Triplets, angles and probe from k x k products, against the same quantities formed explicitly with Eigen.
#include "subspace/ritz.h"
#include "support/factorizations.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <random>

namespace spectralclip {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr double kDrop = 1e-13;

MatrixXd normal_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, cols, [&] { return normal(random); });
}

MatrixXd orthonormal(const MatrixXd& X) { return spectralclip::testing::orthonormal_basis(X); }

// What a pass over G with the columns of V leaves behind.
struct Products {
  MatrixXd G, V, W, Z;
  Workspace workspace;
  Ritz ritz;

  Products(MatrixXd G_, MatrixXd V_) : G(std::move(G_)), V(std::move(V_)), W(G * V), Z(G.transpose() * W) {
    const Index k = V.cols();
    workspace.reserve(Ritz::bytes(k));
    ritz = Ritz::grant(workspace, k);
    put(W.transpose() * W, ritz.S);
    put(Z.transpose() * Z, ritz.T);
    put(V.transpose() * V, ritz.N);
    put(V.transpose() * Z, ritz.P);
  }
  static void put(const MatrixXd& A, double* to) { Eigen::Map<RowMajor>(to, A.rows(), A.cols()) = A; }
  [[nodiscard]] MatrixXd right_vectors() const {  // n x k
    return Z * Eigen::Map<const RowMajor>(ritz.mix, ritz.k, ritz.k).transpose();
  }
  // S is squared W: errors of sigma and the vectors carry cond(W)^2.
  [[nodiscard]] double unit() const {
    const VectorXd s = spectralclip::testing::singular_values(W);
    const double condition = s[0] / s[s.size() - 1];
    return 32 * static_cast<double>(V.cols()) * kEps * condition * condition;
  }
};

struct Size {
  Index m, n, k;
};
constexpr Size kSizes[] = {{1, 1, 1}, {30, 20, 1}, {30, 20, 2}, {20, 30, 6}, {50, 40, 8}, {12, 40, 10}, {60, 64, 16}};

TEST(Ritz, SigmaAndVectorsOfTheProjectedMatrix) {
  for (const auto& [m, n, k] : kSizes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << ", k = " << k);
    Products p(normal_matrix(m, n, 1), normal_matrix(n, k, 2));
    solve_ritz(p.ritz, kDrop);
    ASSERT_EQ(p.ritz.independent, k);
    const MatrixXd B = orthonormal(p.W).transpose() * p.G;
    const VectorXd expected = spectralclip::testing::singular_values(B);
    const MatrixXd found = p.right_vectors();
    const double limit = p.unit() * p.G.norm();
    EXPECT_LE((found.transpose() * found - MatrixXd::Identity(k, k)).norm(), p.unit() * std::sqrt(k));
    for (Index i = 0; i < k; ++i) {
      const double sigma = expected[i];
      EXPECT_LE(std::abs(p.ritz.sigma[i] - sigma), limit) << i;
      // B^T B v = sigma^2 v: no gap is needed for the residual to be small
      const VectorXd residual = B.transpose() * (B * found.col(i)) - sigma * sigma * found.col(i);
      EXPECT_LE(residual.norm(), limit * p.G.norm()) << i;
    }
  }
}

// Vectors one by one where the gaps allow it.
TEST(Ritz, VectorsAgreeUpToSign) {
  const MatrixXd U = orthonormal(normal_matrix(40, 6, 3));
  const MatrixXd V = orthonormal(normal_matrix(30, 6, 4));
  VectorXd sigma(6);
  sigma << 32, 16, 8, 4, 2, 1;
  Products p(U * sigma.asDiagonal() * V.transpose(), V + 0.1 * normal_matrix(30, 6, 5));
  solve_ritz(p.ritz, kDrop);
  const MatrixXd found = p.right_vectors();
  for (Index i = 0; i < 6; ++i) {  // the columns reach the whole row space: exact triplets
    EXPECT_LE(std::abs(p.ritz.sigma[i] - sigma[i]), p.unit() * sigma[0]);
    EXPECT_LE(std::abs(std::abs(found.col(i).dot(V.col(i))) - 1), p.unit()) << i;
  }
}

TEST(Ritz, DependentColumnsAreLeftOut) {
  MatrixXd V = normal_matrix(30, 6, 6);
  V.col(3) = V.col(0) + V.col(2);
  V.col(5).setZero();
  Products p(normal_matrix(25, 30, 7), V);
  solve_ritz(p.ritz, kDrop);
  EXPECT_EQ(p.ritz.independent, 4);
  EXPECT_GT(p.ritz.sigma[3], 0);
  EXPECT_EQ(p.ritz.sigma[4], 0);
  EXPECT_EQ(p.ritz.sigma[5], 0);
  const MatrixXd found = p.right_vectors();
  EXPECT_EQ(found.rightCols(2).norm(), 0);
  MatrixXd W(25, 4);
  W << p.W.col(0), p.W.col(1), p.W.col(2), p.W.col(4);
  const VectorXd expected = spectralclip::testing::singular_values(orthonormal(W).transpose() * p.G);
  const VectorXd s = spectralclip::testing::singular_values(W);
  const double condition = s[0] / s[3];
  for (Index i = 0; i < 4; ++i) {
    EXPECT_LE(std::abs(p.ritz.sigma[i] - expected[i]), 32 * 6 * kEps * condition * condition * p.G.norm());
  }
}

TEST(Ritz, RemembersTheSigmaBefore) {
  Products p(normal_matrix(20, 20, 8), normal_matrix(20, 4, 9));
  solve_ritz(p.ritz, kDrop);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(p.ritz.previous[i], 0);
  const VectorXd first = Eigen::Map<VectorXd>(p.ritz.sigma, 4);
  solve_ritz(p.ritz, kDrop);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(p.ritz.previous[i], first[i]);
}

// sine of the angle between v_i and span V, by projecting explicitly.
TEST(Ritz, SinesAreThoseOfTheExplicitProjection) {
  for (const auto& [m, n, k] : kSizes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << ", k = " << k);
    Products p(normal_matrix(m, n, 10), normal_matrix(n, k, 11));
    solve_ritz(p.ritz, kDrop);
    solve_sines(p.ritz, k);
    const MatrixXd Q = orthonormal(p.V);
    const MatrixXd found = p.right_vectors();
    const VectorXd s = spectralclip::testing::singular_values(p.V);
    const double limit = p.unit() * std::pow(s[0] / s[k - 1], 2);
    for (Index i = 0; i < k; ++i) {
      const double direct = (found.col(i) - Q * (Q.transpose() * found.col(i))).norm();
      EXPECT_LE(std::abs(p.ritz.sine[i] * p.ritz.sine[i] - direct * direct), limit) << i;
    }
  }
}

TEST(Ritz, SinesVanishForAnInvariantSubspace) {
  const MatrixXd V = orthonormal(normal_matrix(30, 4, 12));
  VectorXd sigma(4);
  sigma << 8, 4, 2, 1;
  Products p(orthonormal(normal_matrix(40, 4, 13)) * sigma.asDiagonal() * V.transpose(), V);
  solve_ritz(p.ritz, kDrop);
  solve_sines(p.ritz, 4);
  for (int i = 0; i < 4; ++i) EXPECT_LE(p.ritz.sine[i], std::sqrt(p.unit()));
}

// H = (I - Q Q^T) G, Q from the kept columns alone; eigenvalues of (H^T H Omega)^T (H^T H Omega).
TEST(Ritz, ProbeIsThatOfTheExplicitRemainder) {
  for (const Index kept : {0, 1, 4, 6}) {
    SCOPED_TRACE(::testing::Message() << "kept = " << kept);
    constexpr Index kColumns = 8;
    Products p(normal_matrix(40, 30, 14), normal_matrix(30, kColumns, 15));
    const MatrixXd Omega = p.V.rightCols(kColumns - kept);
    MatrixXd H = p.G;
    if (kept > 0) {
      const MatrixXd Q = orthonormal(p.W.leftCols(kept));
      H -= Q * (Q.transpose() * p.G);
    }
    const VectorXd expected = spectralclip::testing::singular_values(H.transpose() * (H * Omega)).array().square();
    solve_ritz(p.ritz, kDrop);
    probe_fresh_columns(p.ritz, kept, kDrop);
    const double limit = p.unit() * p.Z.squaredNorm();
    for (Index i = 0; i < expected.size(); ++i) EXPECT_LE(std::abs(p.ritz.probe[i] - expected[i]), limit) << i;
    EXPECT_GT(expected[0], 2 * limit) << "the case must have something to find";
  }
}

TEST(Ritz, ProbeOfNothingLeftIsRounding) {
  const MatrixXd V = orthonormal(normal_matrix(30, 4, 16));
  MatrixXd columns(30, 8);
  columns << V, normal_matrix(30, 4, 17);
  Products p(normal_matrix(40, 4, 18) * V.transpose(), columns);
  solve_ritz(p.ritz, kDrop);
  const VectorXd s = spectralclip::testing::singular_values(p.W.leftCols(4));
  const double unit = 32 * 8 * kEps * std::pow(s[0] / s[3], 2);
  probe_fresh_columns(p.ritz, 4, kDrop);
  EXPECT_LE(p.ritz.probe[0], unit * p.Z.squaredNorm());
}

TEST(Ritz, LeadingTurnIsTheOneFromTheKeptColumns) {
  constexpr Index kKept = 3;
  MatrixXd columns(30, 8);
  columns << orthonormal(normal_matrix(30, kKept, 21)), normal_matrix(30, 5, 22);
  Products p(normal_matrix(40, 30, 23), columns);
  solve_ritz(p.ritz, kDrop);
  const MatrixXd P = columns.leftCols(kKept).transpose() * p.Z;  // Vt Zt^T, row-major in ritz.P
  for (Index a = 0; a < kKept; ++a) {
    for (Index b = 0; b < 8; ++b) p.ritz.P[a * 8 + b] = P(a, b);
  }
  VectorXd v = VectorXd::Zero(30);
  for (Index b = 0; b < 8; ++b) v += p.ritz.mix[b] * p.Z.col(b);
  const VectorXd inside = columns.leftCols(kKept) * (columns.leftCols(kKept).transpose() * v);
  const double gain = 1 - (p.G * inside).squaredNorm() / inside.squaredNorm() / std::pow(p.ritz.sigma[0], 2);
  const Turn turn = leading_turn(p.ritz, kKept);
  EXPECT_NEAR(turn.sine_squared, (v - inside).squaredNorm(), p.unit());
  EXPECT_NEAR(turn.gain, gain, p.unit());
}

}  // namespace
}  // namespace spectralclip

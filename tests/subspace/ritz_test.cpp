// SPDX-License-Identifier: Apache-2.0
// Triplets, angles and probe from k x k products, against the same quantities formed explicitly with Eigen. The
// products stand in a larger array, as in a basis that has room to grow; what is outside them is NaN.
#include "subspace/ritz.h"
#include "constants.h"
#include "support/factorizations.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace spectralclip {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kDrop = 1e-13;

MatrixXd normal_matrix(Index rows, Index cols, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, cols, [&] { return normal(random); });
}

MatrixXd orthonormal(const MatrixXd& X) { return spectralclip::testing::orthonormal_basis(X); }

// What passes over G with the columns of V leave behind.
struct Products {
  MatrixXd G, V, W, Z;
  Arena arena;
  Ritz ritz;

  Products(MatrixXd G_, MatrixXd V_, Index spare = 3)
      : G(std::move(G_)), V(std::move(V_)), W(G * V), Z(G.transpose() * W) {
    const Index k = V.cols();
    arena.reserve(Ritz::bytes(k + spare));
    ritz = Ritz::grant(arena, k + spare);
    ritz.k = k;
    put(W.transpose() * W, ritz.S);
    put(Z.transpose() * Z, ritz.T);
    put(V.transpose() * V, ritz.N);
    put(V.transpose() * Z, ritz.P);
  }
  void put(const MatrixXd& A, double* to) const {
    std::fill(to, to + ritz.capacity * ritz.capacity, kNaN);
    for (Index i = 0; i < A.rows(); ++i) {
      for (Index j = 0; j < A.cols(); ++j) to[i * ritz.capacity + j] = A(i, j);
    }
  }
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
constexpr Size kSizes[] = {{1, 1, 1},   {30, 20, 1},  {30, 20, 2},  {20, 30, 6},
                           {50, 40, 8}, {12, 40, 10}, {60, 64, 16}, {90, 80, 40}};

TEST(Ritz, SigmaAndVectorsOfTheProjectedMatrix) {
  for (const auto& [m, n, k] : kSizes) {
    for (const Index spare : {0, 5}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << ", k = " << k << ", room for " << spare << " more");
      Products p(normal_matrix(m, n, 1), normal_matrix(n, k, 2), spare);
      solve_ritz(p.ritz, kDrop, kEps);
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
}

// Vectors one by one where the gaps allow it.
TEST(Ritz, VectorsAgreeUpToSign) {
  const MatrixXd U = orthonormal(normal_matrix(40, 6, 3));
  const MatrixXd V = orthonormal(normal_matrix(30, 6, 4));
  VectorXd sigma(6);
  sigma << 32, 16, 8, 4, 2, 1;
  Products p(U * sigma.asDiagonal() * V.transpose(), V + 0.1 * normal_matrix(30, 6, 5));
  solve_ritz(p.ritz, kDrop, kEps);
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
  solve_ritz(p.ritz, kDrop, kEps);
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

// A column of which a share of kNew is not a combination of those before it amplifies rounding by (2 - kNew) / kNew.
TEST(Ritz, WeakestIsTheInverseOfTheLargestAmplification) {
  const MatrixXd Q = orthonormal(normal_matrix(30, 3, 24));
  MatrixXd V = Q;
  constexpr double kNew = 1e-3;
  V.col(2) = std::sqrt(1 - kNew) * Q.col(0) + std::sqrt(kNew) * Q.col(2);
  Products p(MatrixXd::Identity(30, 30), V);
  solve_ritz(p.ritz, kNew / 2, kEps);
  EXPECT_EQ(p.ritz.independent, 3);
  EXPECT_NEAR(p.ritz.weakest, kNew / (2 - kNew), 32 * kEps);
  solve_ritz(p.ritz, 2 * kNew, kEps);
  EXPECT_EQ(p.ritz.independent, 2);
  EXPECT_NEAR(p.ritz.weakest, 1, 32 * kEps) << "of those that count";
}

// Rounding of the products, epsilon times the longest column, looks like a cosine to a column that is short enough.
TEST(Ritz, ColumnsTooShortForTheirRoundingAreLeftOut) {
  constexpr double kSingle = std::numeric_limits<float>::epsilon();
  constexpr double kCoarse = 1e-2;
  MatrixXd V = orthonormal(normal_matrix(30, 4, 27));
  V.col(2) *= 1e-5;
  Products p(MatrixXd::Identity(30, 30), V);
  solve_ritz(p.ritz, kCoarse, kEps);
  EXPECT_EQ(p.ritz.independent, 4);
  solve_ritz(p.ritz, kCoarse, kSingle);
  EXPECT_EQ(p.ritz.independent, 3);
  EXPECT_EQ(p.ritz.sigma[3], 0);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(p.ritz.sigma[i], 1, 32 * kEps) << "the others do not notice";
}

// sine of the angle between v_i and span V, by projecting explicitly.
TEST(Ritz, SinesAreThoseOfTheExplicitProjection) {
  for (const auto& [m, n, k] : kSizes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << ", k = " << k);
    Products p(normal_matrix(m, n, 10), normal_matrix(n, k, 11));
    solve_ritz(p.ritz, kDrop, kEps);
    solve_sines(p.ritz);
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
  solve_ritz(p.ritz, kDrop, kEps);
  solve_sines(p.ritz);
  for (int i = 0; i < 4; ++i) {
    EXPECT_LE(p.ritz.sine[i], std::sqrt(p.unit()));
    EXPECT_GT(p.ritz.sine[i], 0) << "never said to be less than rounding can tell";
  }
}

// The largest squared singular value of H^T H Omega, H = (I - Q Q^T) G, Q from the kept columns alone.
double explicit_probe(const Products& p, Index kept, const MatrixXd& Omega) {
  MatrixXd H = p.G;
  if (kept > 0) {
    const MatrixXd Q = orthonormal(p.W.leftCols(kept));
    H -= Q * (Q.transpose() * p.G);
  }
  const double largest = spectralclip::testing::singular_values(H.transpose() * (H * Omega))[0];
  return largest * largest;
}

// The columns as they are: X is the identity.
TEST(Ritz, ProbeIsThatOfTheExplicitRemainder) {
  for (const Index kept : {0, 1, 4, 6, 7}) {
    SCOPED_TRACE(::testing::Message() << "kept = " << kept);
    constexpr Index kColumns = 8;
    const Index fresh = kColumns - kept;
    Products p(normal_matrix(40, 30, 14), normal_matrix(30, kColumns, 15));
    const double expected = explicit_probe(p, kept, p.V.rightCols(fresh));
    solve_ritz(p.ritz, kDrop, kEps);
    const RowMajor X = RowMajor::Identity(fresh, fresh);
    const double found = probe_largest(p.ritz, kept, X.data(), fresh, kDrop);
    const double limit = p.unit() * p.Z.squaredNorm();
    EXPECT_LE(std::abs(found - expected), limit);
    EXPECT_GT(expected, 2 * limit) << "the case must have something to find";
  }
}

// `fresh` random columns given as X in an orthonormal basis of what the kept ones leave of them. More columns than
// directions (depend > 0) are what happens when little room is left.
struct BasisCase {
  Index kept, fresh, depend;
};
constexpr BasisCase kBasisCases[] = {{0, 4, 0}, {1, 1, 0}, {3, 4, 0}, {6, 8, 0}, {10, 4, 0},
                                     {6, 4, 1}, {6, 4, 3}, {2, 8, 5}, {0, 8, 5}, {0, 8, 7}};

TEST(Ritz, ProbeOfColumnsInAnOrthonormalBasis) {
  for (const auto& [kept, fresh, depend] : kBasisCases) {
    SCOPED_TRACE(::testing::Message() << "kept " << kept << ", fresh " << fresh << ", dependent " << depend);
    const Index n = 30;
    const Index count = fresh - depend;
    const MatrixXd held = orthonormal(normal_matrix(n, std::max<Index>(kept, 1), 31)).leftCols(kept);
    MatrixXd Omega = normal_matrix(n, count, 32) *
                     (depend == 0 ? MatrixXd(MatrixXd::Identity(count, count)) : normal_matrix(count, fresh, 33));
    if (kept > 0) Omega += held * normal_matrix(kept, fresh, 34);  // of which the probe must see nothing
    const MatrixXd basis = orthonormal((Omega - held * (held.transpose() * Omega)).leftCols(count));
    MatrixXd columns(n, kept + count);
    columns << held, basis;
    Products p(normal_matrix(40, n, 35), columns, 12);
    solve_ritz(p.ritz, kDrop, kEps);
    const RowMajor X = Omega.transpose() * basis;  // fresh x count
    ASSERT_GT((X - RowMajor::Identity(fresh, count)).norm(), 0.1) << "not the case of the test before";
    const double expected = explicit_probe(p, kept, Omega);
    const double limit = p.unit() * p.Z.squaredNorm() * X.squaredNorm();
    EXPECT_LE(std::abs(probe_largest(p.ritz, kept, X.data(), fresh, kDrop) - expected), limit);
    EXPECT_GT(expected, 4 * limit) << "the case must have something to find";
  }
}

TEST(Ritz, ProbeOfNothingLeftIsRounding) {
  const MatrixXd V = orthonormal(normal_matrix(30, 4, 16));
  MatrixXd columns(30, 8);
  columns << V, normal_matrix(30, 4, 17);
  Products p(normal_matrix(40, 4, 18) * V.transpose(), columns);
  solve_ritz(p.ritz, kDrop, kEps);
  const VectorXd s = spectralclip::testing::singular_values(p.W.leftCols(4));
  const double unit = 32 * 8 * kEps * std::pow(s[0] / s[3], 2);
  const RowMajor X = RowMajor::Identity(4, 4);
  const double found = probe_largest(p.ritz, 4, X.data(), 4, kDrop);
  EXPECT_GE(found, 0);
  EXPECT_LE(found, unit * p.Z.squaredNorm());
}

// The probe is asked for between solve_ritz and solve_sines: neither may notice.
TEST(Ritz, ProbeLeavesTheTripletsAlone) {
  Products p(normal_matrix(40, 30, 19), orthonormal(normal_matrix(30, 8, 20)));
  solve_ritz(p.ritz, kDrop, kEps);
  const VectorXd sigma = Eigen::Map<VectorXd>(p.ritz.sigma, 8);
  const MatrixXd vectors = p.right_vectors();
  const RowMajor X = RowMajor::Identity(4, 4);
  (void)probe_largest(p.ritz, 4, X.data(), 4, kDrop);
  EXPECT_EQ((Eigen::Map<VectorXd>(p.ritz.sigma, 8)), sigma);
  EXPECT_EQ(p.right_vectors(), vectors);
}

// v0: the leading vector's direction within an orthonormal V; what it gained in value and in angle.
TEST(Ritz, LeadingTurnIsTheOneFromTheColumns) {
  for (const Index k : {1, 3, 8}) {
    SCOPED_TRACE(::testing::Message() << "k = " << k);
    Products p(normal_matrix(40, 30, 23), orthonormal(normal_matrix(30, k, 21)));
    solve_ritz(p.ritz, kDrop, kEps);
    const VectorXd v = p.right_vectors().col(0);
    const VectorXd inside = p.V * (p.V.transpose() * v);
    const double gain = 1 - (p.G * inside).squaredNorm() / inside.squaredNorm() / std::pow(p.ritz.sigma[0], 2);
    solve_sines(p.ritz);
    const Turn turn = p.ritz.turn;
    EXPECT_NEAR(turn.sine_squared, (v - inside).squaredNorm(), p.unit());
    EXPECT_NEAR(turn.gain, gain, p.unit());
    EXPECT_GT(turn.gain, 2 * p.unit());
  }
}

// tail: the largest singular value of the rows of B = Q^T G from some column on.
TEST(Ritz, TailIsWhatTheLastColumnsShow) {
  Products p(normal_matrix(40, 30, 36), orthonormal(normal_matrix(30, 8, 37)));
  const MatrixXd B = orthonormal(p.W).transpose() * p.G;
  for (const Index first : {0, 1, 5, 7}) {
    solve_ritz(p.ritz, kDrop, kEps, first);
    const VectorXd expected = spectralclip::testing::singular_values(MatrixXd(B.bottomRows(8 - first)));
    EXPECT_NEAR(p.ritz.tail, expected[0], p.unit() * p.G.norm()) << first;
    EXPECT_NEAR(p.ritz.sigma[0], spectralclip::testing::singular_values(B)[0], p.unit() * p.G.norm()) << first;
  }
  solve_ritz(p.ritz, kDrop, kEps, 8);
  EXPECT_EQ(p.ritz.tail, 0);
}

TEST(Ritz, AGrantStaysWithinItsBytes) {
  for (const std::int64_t capacity : {1, 2, 3, 8, 17}) {
    Arena arena;
    arena.reserve(Ritz::bytes(capacity));
    auto* const begin = arena.take<std::byte>(0);
    const Ritz ritz = Ritz::grant(arena, capacity);
    EXPECT_EQ(ritz.capacity, capacity);
    EXPECT_EQ(ritz.k, 0);
    EXPECT_LE(arena.take<std::byte>(0) - begin, static_cast<std::ptrdiff_t>(Ritz::bytes(capacity)));
  }
}

}  // namespace
}  // namespace spectralclip

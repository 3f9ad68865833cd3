// SPDX-License-Identifier: Apache-2.0
// soften and orthogonalize against their definitions through the oracle's singular vectors.
#include <gtest/gtest.h>

#include "clip/dead_band.h"
#include "spectralclip/clip.h"
#include "spectralclip/error.h"
#include "support/oracle.h"
#include "support/stored_matrix.h"

namespace spectralclip {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::Oracle;
using testing::StoredMatrix;

constexpr ScalarType kTypes[] = {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16};
constexpr std::pair<Eigen::Index, Eigen::Index> kSoftShapes[] = {{1, 1}, {1, 9}, {9, 1}, {7, 5}, {40, 64}, {100, 37}};

VectorXd decaying(Eigen::Index r) { return (VectorXd::LinSpaced(r, 0, 1).array() * -7).exp(); }

// Measured worst for soften: 0.8 in float64, 0.26 in the narrower types (1 x 1).
double rounding(const MatrixXd& G, ScalarType type) {
  const double c = type == ScalarType::float64 ? 3 : 0.5;
  return c * std::sqrt(static_cast<double>(std::max(G.rows(), G.cols()))) * storage_epsilon(type);
}

TEST(Soften, EqualsItsDefinition) {
  for (const ScalarType type : kTypes) {
    for (const auto& [rows, cols] : kSoftShapes) {
      const MatrixXd G =
          StoredMatrix(type, testing::with_spectrum(rows, cols, decaying(std::min(rows, cols)))).values();
      for (const double c : {1e-6, 0.01, 1.0, 1e4}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " " + to_string(type) + " c " +
                     std::to_string(c));
        const Oracle oracle(G);
        const VectorXd after = oracle.sigma().unaryExpr([c](double s) { return s / std::sqrt(1 + (s / c) * (s / c)); });
        StoredMatrix stored(type, G);
        const ClipReport report = soften_singular_values(stored.view(), c);
        EXPECT_EQ(report.status, ClipStatus::ok);
        EXPECT_LE((stored.values() - oracle.mapped(after)).norm(), rounding(G, type) * G.norm());
        EXPECT_LE(testing::spectral_norm(stored.values()), report.sigma_bound);
        EXPECT_NEAR(report.norm_after, after.norm(), rounding(G, type) * G.norm());
        EXPECT_TRUE(stored.padding_intact());
      }
    }
  }
}

// c far above everything: G is what it was, to the bit in 32 bits.
TEST(Soften, LargeConstantChangesNothing) {
  StoredMatrix G(ScalarType::float32, testing::with_spectrum(30, 50, decaying(30)));
  const auto before = G.bytes();
  EXPECT_EQ(soften_singular_values(G.view(), 1e12).status, ClipStatus::ok);
  EXPECT_EQ(before, G.bytes());
}

TEST(Orthogonalize, EqualsThePolarFactor) {
  for (const Method method : {Method::exact, Method::newton_schulz}) {
    for (const ScalarType type : kTypes) {
      for (const auto& [rows, cols] : kSoftShapes) {
        SCOPED_TRACE(std::string(to_string(method)) + " " + to_string(type) + " " + std::to_string(rows) + " x " +
                     std::to_string(cols));
        const Eigen::Index r = std::min(rows, cols);
        const MatrixXd G = StoredMatrix(type, testing::with_spectrum(rows, cols, decaying(r)) * 100).values();
        const Oracle oracle(G);
        StoredMatrix stored(type, G);
        const ClipReport report = orthogonalize(stored.view(), method);
        // The polar factor of a matrix of condition k moves by k times the relative error of the matrix, here
        // float64's.
        const double condition = oracle.sigma()[0] / oracle.sigma()[r - 1];
        const double limit =
            (rounding(G, type) + condition * rounding(G, ScalarType::float64)) * std::sqrt(static_cast<double>(r));
        EXPECT_LE((stored.values() - oracle.mapped(VectorXd::Ones(r))).norm(), limit);
        EXPECT_EQ(report.clipped, r);
        EXPECT_EQ(report.method, method);
        EXPECT_LE(testing::spectral_norm(stored.values()), report.sigma_bound);
        EXPECT_TRUE(stored.padding_intact());
      }
    }
  }
}

TEST(Orthogonalize, ZeroSingularValuesStayZero) {
  VectorXd sigma = VectorXd::Ones(20);
  sigma.tail(12).setZero();
  for (const Method method : {Method::exact, Method::newton_schulz}) {
    StoredMatrix G(ScalarType::float64, testing::with_spectrum(33, 20, sigma));
    const ClipReport report = orthogonalize(G.view(), method);
    EXPECT_EQ(report.clipped, 8);
    // newton_schulz lifts rounding by 1 / (max(m, n) eps_float32).
    const double lift = method == Method::exact ? 1 : 1 / (33 * work_epsilon(ScalarType::float32));
    const MatrixXd values = G.values();
    EXPECT_LE(Oracle(values).sigma()[8], lift * rounding(values, ScalarType::float64));
    EXPECT_NEAR(Oracle(values).sigma()[7], 1, rounding(values, ScalarType::float64));
  }
  StoredMatrix zero(ScalarType::float32, MatrixXd::Zero(4, 6));
  EXPECT_EQ(orthogonalize(zero.view(), Method::newton_schulz).clipped, 0);
  EXPECT_EQ(zero.values().norm(), 0);
}

TEST(OwnNames, NonFiniteIsLeftAlone) {
  MatrixXd values = MatrixXd::Ones(5, 4);
  values(2, 1) = std::numeric_limits<double>::quiet_NaN();
  StoredMatrix G(ScalarType::float32, values);
  const auto before = G.bytes();
  EXPECT_EQ(soften_singular_values(G.view(), 1.0).status, ClipStatus::not_finite);
  EXPECT_EQ(orthogonalize(G.view()).status, ClipStatus::not_finite);
  EXPECT_EQ(orthogonalize(G.view(), Method::newton_schulz).status, ClipStatus::not_finite);
  EXPECT_EQ(before, G.bytes());
}

TEST(OwnNames, MisuseThrowsAndNamesTheValue) {
  StoredMatrix G(ScalarType::float32, MatrixXd::Ones(5, 4));
  using Limits = std::numeric_limits<double>;
  for (const double c : {0.0, -1.0, Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_THROW(soften_singular_values(G.view(), c), InvalidArgument);
  }
  try {
    orthogonalize(G.view(), Method::tracked);
    FAIL() << "tracked was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("tracked"), std::string::npos);
  }
  AnyMatrix null = G.view();
  null.data = nullptr;
  EXPECT_THROW(soften_singular_values(null, 1.0), InvalidArgument);
  EXPECT_THROW(orthogonalize(null), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The three dense methods against a Jacobi SVD, over shapes, storage types and spectra; then what a report must say and
// what must not be written. C_tau is 1-Lipschitz in the Frobenius norm, so c sqrt(max(m, n)) eps ||G||_F bounds the
// result whatever the gaps, with eps of the storage type.
#include "clip/dense.h"

#include <gtest/gtest.h>

#include <string>

#include "clip/dead_band.h"
#include "factor/matrix_sign.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::Oracle;
using testing::StoredMatrix;

// Measured worst over all cases: 1.7 in float64 (exact; gram 1.3, newton_schulz 0.7), 0.075 in the narrower types,
// where all that is left is the rounding of the result. Headroom: a factor 3.
constexpr double error_factor(ScalarType type) { return type == ScalarType::float64 ? 5 : 0.25; }

struct Shape {
  Eigen::Index rows, cols;
};
constexpr Shape kShapes[] = {{1, 1}, {1, 9}, {9, 1}, {7, 5}, {5, 7}, {64, 64}, {100, 37}, {200, 40}};
constexpr const char* kSpectra[] = {"flat", "decaying", "spiked", "rank-deficient", "zero", "tied"};

// r values, largest first.
VectorXd spectrum(const std::string& kind, Eigen::Index r) {
  const VectorXd place = VectorXd::LinSpaced(r, 0, 1);
  VectorXd sigma = VectorXd::Ones(r);
  if (kind == "decaying") sigma = (place.array() * -7).exp();
  if (kind == "spiked") sigma = (place.array() * -2).exp();
  if (kind == "spiked") sigma[0] = 1e4;
  if (kind == "rank-deficient") sigma.tail(r / 2).setZero();
  if (kind == "zero") sigma.setZero();
  if (kind == "tied") sigma.head(r / 3).setConstant(2.0);
  if (kind == "tied") sigma.tail(r / 3).setConstant(0.5);
  return sigma;
}

double longer_root(const MatrixXd& G) { return std::sqrt(static_cast<double>(std::max(G.rows(), G.cols()))); }

double tolerance(const MatrixXd& G, ScalarType type) {
  return error_factor(type) * longer_root(G) * storage_epsilon(type) * G.norm();
}

using ClipFunction = ClipReport (*)(const AnyMatrix&, double, bool);
struct MethodCase {
  Method method;
  ClipFunction clip;
};

class DenseMethod : public ::testing::TestWithParam<std::tuple<MethodCase, ScalarType>> {
 protected:
  [[nodiscard]] ClipReport clip(StoredMatrix& G, double tau, bool write = true) const {
    return std::get<0>(GetParam()).clip(G.view(), tau, write);
  }
  [[nodiscard]] ScalarType type() const { return std::get<1>(GetParam()); }
  [[nodiscard]] Method method() const { return std::get<0>(GetParam()).method; }

  void check_report(const ClipReport& report, const MatrixXd& G, const Oracle& oracle, double tau) const;
  void check_clip(const MatrixXd& G, const Oracle& oracle, double tau) const;
};

void DenseMethod::check_report(const ClipReport& report, const MatrixXd& G, const Oracle& oracle, double tau) const {
  const VectorXd sigma = oracle.sigma();
  const VectorXd after = sigma.cwiseMin(tau);
  const double eps = work_epsilon(type());
  EXPECT_EQ(report.status, ClipStatus::ok);
  EXPECT_TRUE(report.method == method() || report.method == Method::exact);
  EXPECT_EQ(report.tau, tau);
  EXPECT_EQ(report.columns, 0);
  const bool estimated = report.method == Method::newton_schulz && G.norm() > 0;
  EXPECT_EQ(report.bound_kind, estimated ? BoundKind::estimated : BoundKind::certain);
  const double rounding = error_factor(ScalarType::float64) * eps * longer_root(G);
  const double slack = estimated ? factor::kEigenvalueGap : rounding;
  EXPECT_NEAR(report.sigma_max, sigma[0], slack * sigma[0]);
  EXPECT_NEAR(report.norm_before, G.norm(), rounding * G.norm());
  EXPECT_NEAR(report.norm_after, after.norm(), rounding * G.norm());
  const double removed = 1 - std::pow(after.norm() / std::max(G.norm(), 1e-300), 2);
  EXPECT_NEAR(report.removed_energy, G.norm() > 0 ? removed : 0, 2 * rounding);
  EXPECT_GE(report.removed_energy, 0);
  EXPECT_LE(report.removed_energy, 1);
}

void DenseMethod::check_clip(const MatrixXd& G, const Oracle& oracle, double tau) const {
  StoredMatrix stored(type(), G);
  const auto before = stored.bytes();
  const ClipReport report = clip(stored, tau);
  check_report(report, G, oracle, tau);
  EXPECT_TRUE(stored.padding_intact());
  const MatrixXd result = stored.values();
  EXPECT_LE((result - oracle.clipped(tau)).norm(), tolerance(G, type()));
  const double band = dead_band(type());
  // Values that rounding could put on either side are left out of the count from both ends.
  const VectorXd sigma = oracle.sigma();
  const double noise = std::sqrt(work_epsilon(type())) * sigma[0];
  EXPECT_GE(report.clipped, (sigma.array() > std::max(tau * (1 + 2 * band), tau > 0 ? 0 : noise)).count());
  EXPECT_LE(report.clipped, (sigma.array() > tau * (1 - 2 * band)).count());
  EXPECT_LE(testing::sigma_max_beside(result, report.sigma_bound), report.sigma_bound);
  if (report.clipped == 0) {
    EXPECT_EQ(before, stored.bytes());
  }
  if (type() == ScalarType::bfloat16 || type() == ScalarType::float16) return;  // dead_band.h
  const auto once = stored.bytes();
  EXPECT_EQ(report.clipped == 0, before == once);
  EXPECT_EQ(clip(stored, tau).clipped, 0);
  EXPECT_EQ(once, stored.bytes());
}

TEST_P(DenseMethod, EqualsTheOracle) {
  for (const Shape shape : kShapes) {
    if (testing::quick() && shape.rows * shape.cols > 2000) continue;
    for (const std::string kind : kSpectra) {
      const MatrixXd exact =
          testing::with_spectrum(shape.rows, shape.cols, spectrum(kind, std::min(shape.rows, shape.cols)));
      const MatrixXd G = StoredMatrix(type(), exact).values();
      const Oracle oracle(G);
      const double sigma_max = oracle.sigma()[0];
      for (const double tau : {1.0, sigma_max / 2, sigma_max / 900, sigma_max * 1.5, 0.0}) {
        SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + ", " + kind + ", tau " +
                     std::to_string(tau));
        check_clip(G, oracle, tau);
      }
    }
  }
}

TEST_P(DenseMethod, NothingAboveTauWritesNothing) {
  StoredMatrix G(type(), testing::with_spectrum(40, 30, spectrum("decaying", 30)));
  const auto before = G.bytes();
  for (const double tau : {1.5, 1e300, std::numeric_limits<double>::infinity()}) {
    const ClipReport report = clip(G, tau);
    EXPECT_EQ(report.clipped, 0);
    EXPECT_EQ(report.removed_energy, 0);
    EXPECT_EQ(report.norm_after, report.norm_before);
    EXPECT_GE(report.sigma_bound, testing::spectral_norm(G.values()));
  }
  EXPECT_EQ(before, G.bytes());
}

TEST_P(DenseMethod, ObserveOnlyReportsTheSame) {
  StoredMatrix G(type(), testing::with_spectrum(30, 40, spectrum("decaying", 30)));
  const auto before = G.bytes();
  const ClipReport would = clip(G, 0.25, false);
  EXPECT_EQ(before, G.bytes());
  const ClipReport did = clip(G, 0.25);
  EXPECT_NE(before, G.bytes());
  EXPECT_EQ(would.clipped, did.clipped);
  EXPECT_EQ(would.sigma_max, did.sigma_max);
  EXPECT_EQ(would.removed_energy, did.removed_energy);
}

TEST_P(DenseMethod, NonFiniteIsLeftAlone) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    MatrixXd values = MatrixXd::Ones(9, 14);
    values(8, 13) = bad;
    StoredMatrix G(type(), values);
    const auto before = G.bytes();
    const ClipReport report = clip(G, 0.5);
    EXPECT_EQ(report.status, ClipStatus::not_finite);
    EXPECT_FALSE(report.written());
    EXPECT_EQ(before, G.bytes());
  }
}

TEST_P(DenseMethod, AnyMagnitude) {
  const bool wide_range = type() == ScalarType::float64;
  const bool half = type() == ScalarType::float16;
  for (const double size : {wide_range ? 1e300 : half ? 1e3 : 1e30, wide_range ? 1e-300 : half ? 1e-2 : 1e-30}) {
    const MatrixXd unit = testing::with_spectrum(24, 19, spectrum("decaying", 19));
    const MatrixXd G = StoredMatrix(type(), unit * size).values();
    StoredMatrix stored(type(), G);
    const ClipReport report = clip(stored, 0.25 * size);
    // Compared in units of `size`: squares of 1e300 would overflow in the test as well.
    const MatrixXd in_units = G / size;
    EXPECT_LE((stored.values() / size - Oracle(in_units).clipped(0.25)).norm(), tolerance(in_units, type()));
    EXPECT_GT(report.clipped, 0);
    EXPECT_LE(report.norm_after, report.norm_before);
  }
}

// The spectrum says which method could run at all.
TEST_P(DenseMethod, FallsBackWhereSquaringIsNotEnough) {
  VectorXd sigma = spectrum("flat", 20);
  sigma[0] = 1e7;
  if (type() == ScalarType::float16) GTEST_SKIP() << "1e7 is beyond float16";
  const MatrixXd G = StoredMatrix(type(), testing::with_spectrum(30, 20, sigma)).values();
  StoredMatrix stored(type(), G);
  EXPECT_EQ(clip(stored, 1.0).method, Method::exact);
  EXPECT_LE((stored.values() - Oracle(G).clipped(1.0)).norm(), tolerance(G, type()));
  StoredMatrix mild(type(), testing::with_spectrum(30, 20, spectrum("decaying", 20)));
  EXPECT_EQ(clip(mild, 0.5).method, method());
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<MethodCase, ScalarType>>& info) {
  return std::string(to_string(std::get<0>(info.param).method)) + "_" + to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, DenseMethod,
                         ::testing::Combine(::testing::Values(MethodCase{Method::exact, clip_exact},
                                                              MethodCase{Method::gram, clip_gram},
                                                              MethodCase{Method::newton_schulz, clip_newton_schulz}),
                                            ::testing::Values(ScalarType::float32, ScalarType::float64,
                                                              ScalarType::bfloat16, ScalarType::float16)),
                         case_name);

}  // namespace
}  // namespace spectralclip

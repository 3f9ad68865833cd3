// SPDX-License-Identifier: Apache-2.0
// The tests' own tools: a comparator that accepts too much, or a truth that is not one, would pass everything.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "constants.h"
#include "support/compare.h"
#include "support/gradient_sequence.h"
#include "support/npy.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"

namespace spectralclip::testing {
namespace {

using Eigen::MatrixXd;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Close, AcceptsOnlyWhatIsWithinTheTolerance) {
  const MatrixXd A = MatrixXd::Constant(2, 3, -4.0);
  const MatrixXd B = MatrixXd::Constant(2, 3, -5.0);  // both negative, sqrt(6) apart
  EXPECT_TRUE(close(A, A, 0));
  EXPECT_TRUE(close(A, B, 2.5));
  EXPECT_FALSE(close(A, B, 2.4));
  EXPECT_FALSE(close(B, A, 2.4));
  EXPECT_FALSE(close(A, -A, 2.4));
  EXPECT_FALSE(close(A, A.transpose(), 1e9));
}

TEST(Close, RefusesWhatIsNotANumber) {
  MatrixXd broken = MatrixXd::Ones(2, 2);
  broken(1, 0) = kNan;
  EXPECT_FALSE(close(broken, MatrixXd::Ones(2, 2), 1e300));
  EXPECT_FALSE(close(MatrixXd::Ones(2, 2), broken, 1e300));
  EXPECT_FALSE(close(broken, broken, 1e300));
  EXPECT_FALSE(close(MatrixXd::Ones(2, 2), MatrixXd::Ones(2, 2), kNan));
  broken(1, 0) = kInf;
  EXPECT_FALSE(close(broken, broken, 1e300));
}

TEST(Quantile, IsAValueOfTheSample) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 9);
  EXPECT_EQ(quantile({-1, -2}, 1.0), -1);
  EXPECT_EQ(quantile({5}, 0.0), 5);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({1, kNan, 2}, 0.1)));
}

TEST(StoredMatrix, SeesEveryTouchOfThePadding) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16}) {
    StoredMatrix G(type, MatrixXd::Constant(3, 4, -1.5), 2);
    EXPECT_TRUE(G.padding_intact());
    EXPECT_EQ(G.values(), MatrixXd::Constant(3, 4, -1.5));
    static_cast<std::uint8_t*>(G.view().data)[4 * size_of(type)] ^= 1;
    EXPECT_FALSE(G.padding_intact());
  }
}

TEST(Reference, ThreeTruthsAgree) {
  std::mt19937_64 random(3);
  for (const auto& [rows, cols] : {std::pair{12, 7}, {7, 12}, {20, 20}}) {
    const Eigen::Index r = std::min(rows, cols);
    const Spectrum& spectrum = spectrum_named("fast decay");
    const Reference known =
        known_matrix(random_basis(rows, r, random), spectrum.sigma(r), random_basis(cols, r, random));
    const Reference svd = reference_by_svd(known.exact);
    const Oracle extended(known.exact);
    const double tolerance = 64 * kEps * known.exact.norm();
    EXPECT_TRUE(close(known.clipped(spectrum.tau), extended.clipped(spectrum.tau), tolerance));
    EXPECT_TRUE(close(svd.clipped(spectrum.tau), extended.clipped(spectrum.tau), tolerance));
    const Removed gram = removed_by_gram(known.exact, spectrum.tau);
    EXPECT_TRUE(close(gram.part, known.exact - extended.clipped(spectrum.tau), tolerance / spectrum.tau));
    EXPECT_EQ(gram.count, known.above(spectrum.tau));
    EXPECT_NEAR(sigma_max_of(known.exact), 1, 64 * kEps);
    EXPECT_NEAR(gram.sigma_max, 1, 64 * kEps);
    EXPECT_LE(sigma_max_from_below(known.exact), 1 + 64 * kEps);
    EXPECT_GT(sigma_max_from_below(known.exact), 0.99);
    EXPECT_NEAR(known.removed_norm(spectrum.tau), gram.part.norm(), tolerance / spectrum.tau);
  }
}

TEST(Spectra, DescendAndStayNonNegative) {
  for (const Spectrum& spectrum : all_spectra()) {
    for (const Eigen::Index r : {1, 2, 5, 64}) {
      const Eigen::VectorXd sigma = spectrum.sigma(r);
      ASSERT_EQ(sigma.size(), r) << spectrum.name;
      EXPECT_GE(sigma[r - 1], 0) << spectrum.name;
      for (Eigen::Index i = 1; i < r; ++i) EXPECT_LE(sigma[i], sigma[i - 1]) << spectrum.name << " at " << i;
    }
  }
  EXPECT_THROW((void)spectrum_named("no such"), std::invalid_argument);
}

TEST(GradientSequence, DriftsSlowlyAndSpikesSometimes) {
  GradientSequence sequence({.spike_every = 5});
  int spikes = 0;
  for (int step = 1; step <= 20; ++step) {
    const MatrixXd G = sequence.next();
    const Removed leading = removed_by_gram(G, 2.0);
    spikes += leading.count > 0 ? 1 : 0;
    EXPECT_EQ(leading.count > 0, step % 5 == 0) << "step " << step;
  }
  EXPECT_EQ(spikes, 4);
}

TEST(Npy, RefusesAMissingFile) { EXPECT_THROW((void)read_npy_sequence("no/such/file.npy"), std::runtime_error); }

TEST(Npy, ReadsTheRecordedGradients) {
  const auto folder = gradients_folder();
  if (!folder) GTEST_SKIP() << kNoRecordedGradients;
  const auto sequence = read_npy_sequence(*folder + "/" + kRecordedFiles[1]);
  ASSERT_EQ(sequence.size(), 16u);
  EXPECT_EQ(sequence[0].rows(), 1024);
  EXPECT_EQ(sequence[0].cols(), 256);
  for (const MatrixXd& G : sequence) EXPECT_TRUE(G.allFinite() && G.norm() > 0);
}

}  // namespace
}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// Noise models: rank, size, distribution, and what they leave alone.
#include "noise/noise.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <cmath>
#include <limits>
#include <vector>

#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

RowMajor noise_matrix(std::int64_t rows, std::int64_t cols, const NoiseConfig& config, std::int64_t step = 1) {
  RowMajor G = RowMajor::Zero(rows, cols);
  Draws draws(7, "noise", step);
  add_noise(MatrixView<double>(G.data(), rows, cols), config, draws);
  return G;
}

Eigen::VectorXd spectrum(const RowMajor& G) { return Eigen::JacobiSVD<RowMajor>(G).singularValues(); }

class RankNoise : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RankNoise, testing::Values("rank_gaussian", "rank_pareto"));

TEST_P(RankNoise, HasTheRankAsked) {
  constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();
  for (const std::int64_t rank : {1, 2, 4}) {
    const Eigen::VectorXd sigma =
        spectrum(noise_matrix(6, 9, {.kind = GetParam(), .scale = 2, .alpha = 3, .rank = rank}));
    EXPECT_GT(sigma[rank - 1], 1e-6 * sigma[0]) << rank;
    EXPECT_LE(sigma[rank], kRounding * sigma[0]) << rank;
  }
}

TEST_P(RankNoise, RankIsAtMostTheSmallerSide) {
  const NoiseConfig many{.kind = GetParam(), .scale = 2, .alpha = 3, .rank = 100};
  NoiseConfig all = many;
  all.rank = 3;
  EXPECT_EQ(noise_matrix(3, 9, many), noise_matrix(3, 9, all));
  EXPECT_NE(noise_matrix(3, 9, all), noise_matrix(3, 9, {.kind = GetParam(), .scale = 2, .alpha = 3, .rank = 2}));
}

// u and v are unit vectors: the norm of one term is |s|, here a Pareto variable whose logarithm has mean 1 / alpha.
TEST(NoiseModels, RankOneTermHasTheNormOfItsFactor) {
  constexpr int kSteps = 4000;
  constexpr double kScale = 2, kAlpha = 1.1;
  double logs = 0;
  for (int step = 0; step < kSteps; ++step) {
    const double norm = noise_matrix(5, 3, {.kind = "rank_pareto", .scale = kScale, .alpha = kAlpha}, step).norm();
    EXPECT_GE(norm, kScale * (1 - 1e-12));
    logs += std::log(norm / kScale) / kSteps;
  }
  EXPECT_NEAR(logs, 1 / kAlpha, 5 / kAlpha / std::sqrt(kSteps));
}

TEST(NoiseModels, DirectionsHaveNoPreference) {
  constexpr int kSteps = 20000;
  RowMajor squares = RowMajor::Zero(2, 3), sum = RowMajor::Zero(2, 3);
  for (int step = 0; step < kSteps; ++step) {
    const RowMajor N = noise_matrix(2, 3, {.kind = "rank_gaussian", .scale = 1}, step);
    sum += N / kSteps;
    squares += N.cwiseAbs2() / kSteps;
  }
  // An entry is s u_i v_j with E = 0, E^2 = 1/6, and E^4 = 3 (3/8) (1/5), the moments of one coordinate on spheres.
  const double deviation = std::sqrt(3 * 0.375 * 0.2 - 1.0 / 36);
  EXPECT_LT(sum.cwiseAbs().maxCoeff(), 5 * std::sqrt(1.0 / 6 / kSteps));
  EXPECT_LT((squares.array() - 1.0 / 6).abs().maxCoeff(), 5 * deviation / std::sqrt(kSteps));
}

TEST(NoiseModels, DenseGaussianHasItsVarianceAndFullRank) {
  constexpr double kScale = 3;
  const RowMajor N = noise_matrix(200, 150, {.kind = "gaussian", .scale = kScale});
  const auto count = static_cast<double>(N.size());
  EXPECT_NEAR(N.mean(), 0, 5 * kScale / std::sqrt(count));
  EXPECT_NEAR(N.squaredNorm() / count, kScale * kScale, 5 * kScale * kScale * std::sqrt(2 / count));
  const Eigen::VectorXd sigma = spectrum(N.topLeftCorner(20, 20));
  EXPECT_GT(sigma[19], 1e-6 * sigma[0]);
}

TEST(NoiseModels, DenseParetoEntriesAreIndependentAndHeavy) {
  constexpr double kScale = 0.5, kAlpha = 1.3;
  const RowMajor N = noise_matrix(200, 150, {.kind = "pareto", .scale = kScale, .alpha = kAlpha});
  const auto count = static_cast<double>(N.size());
  EXPECT_GE(N.cwiseAbs().minCoeff(), kScale * (1 - 1e-12));
  EXPECT_NEAR((N.array().abs() / kScale).log().mean(), 1 / kAlpha, 5 / kAlpha / std::sqrt(count));
  EXPECT_NEAR(N.cwiseSign().mean(), 0, 5 / std::sqrt(count));
  EXPECT_GT(spectrum(N.topLeftCorner(20, 20))[19], 0.01 * kScale);
}

TEST(NoiseModels, VectorIsAMatrixOfOneColumn) {
  const RowMajor N = noise_matrix(11, 1, {.kind = "rank_pareto", .scale = 2, .alpha = 1.1, .rank = 5});
  EXPECT_GE(N.norm(), 2 * (1 - 1e-12));
  Draws draws(7, "noise", 1);
  EXPECT_NEAR(N.norm(), std::abs(draws.two_sided_pareto(2, 1.1)), 1e-12 * N.norm());  // one term only
}

TEST(NoiseModels, NoneWritesNothingAndNoiseIsAdded) {
  RowMajor G = RowMajor::Constant(3, 4, 0.1);
  const RowMajor before = G;
  Draws draws(7, "noise", 1);
  add_noise(MatrixView<double>(G.data(), 3, 4), {.kind = "none"}, draws);
  EXPECT_EQ(G, before);
  add_noise(MatrixView<double>(G.data(), 3, 4), {.kind = "gaussian", .scale = 1}, draws);
  EXPECT_LE((G - before - noise_matrix(3, 4, {.kind = "gaussian", .scale = 1})).norm(), 1e-14);
}

TEST(NoiseModels, RowStrideIsRespectedInBothPrecisions) {
  for (const char* kind : {"gaussian", "pareto", "rank_gaussian", "rank_pareto"}) {
    const NoiseConfig config{.kind = kind, .scale = 1, .alpha = 2};
    const RowMajor expected = noise_matrix(4, 3, config);
    std::vector<float> padded(4 * 5, 0.0F);
    Draws draws(7, "noise", 1);
    add_noise(MatrixView<float>(padded.data(), 4, 3, 5), config, draws);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(padded[static_cast<std::size_t>(5 * i + j)], j < 3 ? static_cast<float>(expected(i, j)) : 0.0F)
            << kind;
      }
    }
  }
}

TEST(NoiseHits, OnceInSoManySteps) {
  constexpr int kSteps = 40000;
  constexpr double kProbability = 0.1;
  const NoiseConfig config{.kind = "rank_pareto", .probability = kProbability};
  int hits = 0, other_seed = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const bool hit = noise_hits(config, 1, step);
    EXPECT_EQ(hit, noise_hits(config, 1, step));
    hits += hit ? 1 : 0;
    other_seed += hit != noise_hits(config, 2, step) ? 1 : 0;
  }
  EXPECT_NEAR(hits, kSteps * kProbability, 5 * std::sqrt(kSteps * kProbability * (1 - kProbability)));
  EXPECT_GT(other_seed, kSteps / 10);  // 2 p (1 - p) = 0.18 of them differ
}

TEST(NoiseHits, NeverAndAlways) {
  for (int step = 1; step <= 1000; ++step) {
    EXPECT_FALSE(noise_hits({.kind = "rank_pareto", .probability = 0}, 1, step));
    EXPECT_TRUE(noise_hits({.kind = "rank_pareto", .probability = 1}, 1, step));
    EXPECT_FALSE(noise_hits({.kind = "none", .probability = 1}, 1, step));
  }
}

TEST(NoiseModels, MisuseIsRefused) {
  EXPECT_THROW((void)parse_noise_kind("cauchy"), InvalidArgument);
  EXPECT_THROW(validate({.kind = "pareto", .probability = 1.5}), InvalidArgument);
  EXPECT_THROW(validate({.kind = "pareto", .scale = -1}), InvalidArgument);
  EXPECT_THROW(validate({.kind = "pareto", .alpha = 0}), InvalidArgument);
  EXPECT_THROW(validate({.kind = "pareto", .rank = 0}), InvalidArgument);
  EXPECT_NO_THROW(validate(NoiseConfig{}));
}

}  // namespace
}  // namespace spectralclip::lab

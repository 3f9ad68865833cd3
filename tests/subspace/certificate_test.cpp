// SPDX-License-Identifier: Apache-2.0
// The small-ball radius behind the estimated bounds, by Monte Carlo over the very columns the library draws, in the
// directions in which Ball's inequality is sharp and in others.
#include "subspace/certificate.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "constants.h"
#include "random/uniform.h"

namespace spectralclip {
namespace {

constexpr int kLength = 16;
constexpr int kTrials = 20000;
using Direction = std::array<double, kLength>;

Direction unit_direction(const Direction& v) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  Direction u = v;
  for (double& x : u) x /= std::sqrt(squares);
  return u;
}

// An axis; the diagonal of a plane, where the density at zero is 1 / sqrt 6 exactly; that of the cube; a random one.
std::vector<Direction> directions() {
  Direction axis{}, plane{}, cube{}, random{};
  axis[3] = 1;
  plane[0] = plane[9] = 1;
  cube.fill(1);
  fill_uniform(RandomStream{99, 0, 0, 0}, 0, random.data(), kLength);
  return {axis, unit_direction(plane), unit_direction(cube), unit_direction(random)};
}

// How often sum_i <omega_i, v>^2 < radius_squared, for each direction, over the same draws.
std::vector<int> count_inside(int fresh, double radius_squared) {
  const std::vector<Direction> all = directions();
  std::vector<int> inside(all.size(), 0);
  Direction omega{};
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> sums(all.size(), 0.0);
    for (int f = 0; f < fresh; ++f) {
      fill_uniform(RandomStream{1, 2, static_cast<std::uint64_t>(trial), 0}, static_cast<std::uint32_t>(f),
                   omega.data(), kLength);
      for (std::size_t d = 0; d < all.size(); ++d) {
        double dot = 0;
        for (std::size_t i = 0; i < kLength; ++i) dot += omega[i] * all[d][i];
        sums[d] += dot * dot;
      }
    }
    for (std::size_t d = 0; d < all.size(); ++d) inside[d] += sums[d] < radius_squared ? 1 : 0;
  }
  return inside;
}

// Were the true probability above `failure`, a count this small would still be plausible; above it, five standard
// deviations of the binomial speak against the bound.
double most_plausible(double failure) { return kTrials * failure + 5 * std::sqrt(kTrials * failure * (1 - failure)); }

TEST(SmallBall, ProbabilityIsBounded) {
  for (int fresh = 1; fresh <= 8; ++fresh) {
    for (const double failure : {0.01, 0.1}) {
      const auto inside = count_inside(fresh, small_ball_radius_squared(fresh, failure));
      for (std::size_t d = 0; d < inside.size(); ++d) {
        EXPECT_LE(inside[d], most_plausible(failure)) << "fresh " << fresh << ", direction " << d;
      }
    }
  }
}

// The diagonal of a plane attains the bound but for the slope of its triangular density: one column inside |x| < r has
// probability 2 r / sqrt 6 (1 - r / (2 sqrt 6)). A bound that were merely large would fail here.
TEST(SmallBall, IsSharpOnTheDiagonalOfAPlane) {
  constexpr double kFailure = 0.05;
  const double radius_squared = small_ball_radius_squared(1, kFailure);
  const double probability = kFailure * (1 - std::sqrt(radius_squared) / (2 * std::sqrt(6.0)));
  const double inside = count_inside(1, radius_squared)[1];
  EXPECT_LE(std::abs(inside - kTrials * probability), 5 * std::sqrt(kTrials * probability * (1 - probability)));
}

// Volume of the ball times the density: f = 1: 2 r / sqrt 6, f = 2: pi r^2 / 6, f = 3: 4/3 pi r^3 / 6^(3/2).
TEST(SmallBall, VolumesOfLowDimensions) {
  for (const double p : {1e-6, 1e-3, 0.5}) {
    const double r1 = std::sqrt(small_ball_radius_squared(1, p));
    const double r2 = std::sqrt(small_ball_radius_squared(2, p));
    const double r3 = std::sqrt(small_ball_radius_squared(3, p));
    EXPECT_NEAR(2 * r1 / std::sqrt(6.0), p, 64 * kEps * p);
    EXPECT_NEAR(std::numbers::pi * r2 * r2 / 6, p, 64 * kEps * p);
    EXPECT_NEAR(4.0 / 3 * std::numbers::pi * r3 * r3 * r3 / std::pow(6.0, 1.5), p, 64 * kEps * p);
  }
}

TEST(SmallBall, GrowsWithFailureAndColumns) {
  for (int fresh = 1; fresh < 8; ++fresh) {
    EXPECT_LT(small_ball_radius_squared(fresh, 1e-4), small_ball_radius_squared(fresh, 1e-3));
    EXPECT_LT(small_ball_radius_squared(fresh, 1e-3), small_ball_radius_squared(fresh + 1, 1e-3));
  }
}

// Random blocks: never below the largest eigenvalue, and equal to it where E E^T is diagonal and B = b I.
TEST(CoupledEigenvalue, BoundsTheLargestAndIsMetByOne) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  for (int trial = 0; trial < 2000; ++trial) {
    const Eigen::Index k = 1 + static_cast<Eigen::Index>(random() % 6), l = 1 + static_cast<Eigen::Index>(random() % 5);
    Eigen::MatrixXd M = Eigen::MatrixXd::Zero(k + l, k + l);
    for (Eigen::Index i = 0; i < k; ++i) M(i, i) = uniform(random);
    const double b = uniform(random);
    const double size = std::pow(10, -4 * uniform(random));
    const bool sharp = k == 1 && trial % 2 == 0;
    for (Eigen::Index j = 0; j < l; ++j) {
      M(k + j, k + j) = b * (sharp ? 1 : uniform(random));
      for (Eigen::Index i = 0; i < k; ++i) M(i, k + j) = M(k + j, i) = size * (2 * uniform(random) - 1);
    }
    const double bound =
        coupled_eigenvalue(k, b, [&](std::int64_t i) { return std::pair(M(i, i), M.row(i).tail(l).squaredNorm()); });
    const double largest = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(M).eigenvalues().maxCoeff();
    ASSERT_GE(bound, largest * (1 - 8 * kEps));
    ASSERT_LE(bound, std::sqrt(k * l) * size + std::max(M.diagonal().head(k).maxCoeff(), b)) << "no looser than norms";
    if (sharp) {
      ASSERT_NEAR(bound, largest, 1e-12);
    }
  }
  const auto uncoupled = [](std::int64_t i) { return std::pair(i == 0 ? 0.5 : 0.25, 0.0); };
  EXPECT_EQ(coupled_eigenvalue(2, 0.3, uncoupled), 0.5);
  EXPECT_EQ(coupled_eigenvalue(2, 0.7, uncoupled), 0.7);
  EXPECT_EQ(coupled_eigenvalue(0, 0.3, uncoupled), 0.3);
}

}  // namespace
}  // namespace spectralclip

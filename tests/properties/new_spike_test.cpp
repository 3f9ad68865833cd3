// SPDX-License-Identifier: Apache-2.0
// A rank-one spike that is orthogonal to everything tracked must be seen in the very step in which it appears: that is
// what the fresh random columns are for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "spectralclip/clip.h"
#include "support/compare.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kRows = 96;
constexpr Index kCols = 80;

struct Scene {
  MatrixXd usual;  // four directions of size 1, 0.7, 0.5, 0.35, perhaps over a bulk of size 0.2
  VectorXd u, v;   // of the spike, orthogonal to all four
};

Scene make_scene(double bulk, std::mt19937_64& random) {
  const MatrixXd U = random_basis(kRows, 5, random);
  const MatrixXd V = random_basis(kCols, 5, random);
  const Eigen::Vector4d sigma(1, 0.7, 0.5, 0.35);
  const double noise = bulk / (std::sqrt(static_cast<double>(kRows)) + std::sqrt(static_cast<double>(kCols)));
  return {U.leftCols(4) * sigma.asDiagonal() * V.leftCols(4).transpose() + noise * gaussian(kRows, kCols, random),
          U.col(4), V.col(4)};
}

// Whether the spike was brought down to tau (within a percent of what was to be removed) in its first step.
bool caught(const Scene& scene, double strength, std::optional<std::int64_t> rank, std::uint64_t seed,
            std::mt19937_64& random) {
  MatrixClipper clipper(kRows, kCols, {.rank = rank, .seed = seed});
  const double tau = 1.2;  // the usual gradient is not clipped
  for (int step = 0; step < 3; ++step) {
    StoredMatrix quiet(ScalarType::float32, scene.usual + 1e-3 * random_basis(kRows, kCols, random));
    const ClipReport report = clipper.clip(quiet.view(), tau);
    EXPECT_EQ(report.clipped, 0);
  }
  StoredMatrix spiked(ScalarType::float32, scene.usual + strength * scene.u * scene.v.transpose());
  const ClipReport report = clipper.clip(spiked.view(), tau);
  const double left = scene.u.dot(spiked.values() * scene.v);
  return report.clipped == 1 && std::abs(left - tau) < 0.01 * (strength - tau);
}

int misses(double strength, double bulk, int trials, std::optional<std::int64_t> rank = {}) {
  int missed = 0;
  for (int trial = 1; trial <= trials; ++trial) {
    std::mt19937_64 random(static_cast<std::uint64_t>(trial));
    const Scene scene = make_scene(bulk, random);
    missed += caught(scene, strength, rank, static_cast<std::uint64_t>(trial), random) ? 0 : 1;
  }
  std::printf("strength %5.0f, bulk %.1f, %s: %d of %d missed\n", strength, bulk, rank ? "fixed rank" : "free rank",
              missed, trials);
  return missed;
}

// The probe sees the spike as strength^2 |<omega, v>| over four columns and fires when the root of that exceeds
// min(tau, sigma_max). At strength s over sigma_max it misses when all four |<omega, v>| stay below s^-2, with
// probability at most pi^2 / 72 s^-8 (Ball's density bound, as in the certificate): 5e-4 at 2, 2e-5 at 3, 2e-9 at 10.
constexpr double miss_probability(double strength) {
  const double square = strength * strength;
  return 9.8696 / 72 / (square * square * square * square);
}

TEST(NewSpike, IsCaughtInItsFirstStep) {
  for (const double bulk : {0.0, 0.2}) {
    for (const double strength : {3.0, 10.0, 100.0}) {
      EXPECT_EQ(misses(strength, bulk, repeats(150, 20)), 0) << strength << " x sigma_max, bulk " << bulk;
    }
  }
}

TEST(NewSpike, IsRarelyMissedAtTwiceSigmaMax) {
  const int trials = repeats(400, 40);
  for (const double bulk : {0.0, 0.2}) {
    const double expected = trials * miss_probability(2);  // 0.2 of 400: three or more have probability 1e-3
    EXPECT_LE(misses(2, bulk, trials), std::ceil(expected) + 1) << "bulk " << bulk;
  }
}

TEST(NewSpike, IsCaughtWithAFixedRank) {
  for (const double strength : {3.0, 10.0}) EXPECT_EQ(misses(strength, 0.2, repeats(100, 20), 4), 0);
}

}  // namespace
}  // namespace spectralclip::testing

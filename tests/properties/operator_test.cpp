// SPDX-License-Identifier: Apache-2.0
// What C_tau is, whatever computes it: idempotent, invariant under orthogonal changes of basis, 1-Lipschitz,
// equivariant under scaling, permutation and transposition; tau = 0 erases; magnitudes near the ends of float32 change
// nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "clip/dead_band.h"
#include "spectralclip/clip.h"
#include "support/compare.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr Method kMethods[] = {Method::exact,   Method::gram,          Method::sketched,
                               Method::tracked, Method::newton_schulz, Method::automatic};

// Few values above tau and a gap below them, so that a subspace method reaches rounding when asked to.
const ClipOptions options_of(Method method) {
  return {.method = method, .power_passes = 6, .tolerance = 1e-7, .max_passes = 12};
}

class Operator : public ::testing::TestWithParam<Method> {
 protected:
  [[nodiscard]] MatrixXd clipped(const MatrixXd& G, double tau, ScalarType type = ScalarType::float64) const {
    StoredMatrix stored(type, G);
    const ClipStatus status = clip_singular_values(stored.view(), tau, options_of(GetParam())).status;
    // Algorithm 2 reads as often as it is told, sure or not.
    const bool unsure = GetParam() == Method::sketched && status == ClipStatus::not_converged;
    EXPECT_TRUE(status == ClipStatus::ok || unsure) << to_string(status);
    EXPECT_TRUE(stored.padding_intact());
    return stored.values();
  }
};

// c sqrt(max(m, n)) eps ||G||_F for each of two results; a subspace method adds its tolerance times what it removed
// (three times: the error estimate behind it is a median).
double slack(Method method, const MatrixXd& G, double tau, ScalarType type = ScalarType::float64) {
  const double rounding =
      10 * std::sqrt(static_cast<double>(std::max(G.rows(), G.cols()))) * storage_epsilon(type) * G.norm();
  const bool subspace = method == Method::tracked || method == Method::sketched || method == Method::automatic;
  return rounding + (subspace ? 3 * options_of(method).tolerance * removed_by_gram(G, tau).part.norm() : 0.0);
}

MatrixXd sample(Index rows, Index cols, const char* spectrum, std::uint64_t seed = 1) {
  return with_spectrum(rows, cols, spectrum_named(spectrum).sigma(std::min(rows, cols)), seed);
}

// Bit for bit. What a subspace method leaves above tau is its error, so it is asked for all the digits of the type; the
// fixed number of passes of a sketch gives them only where the spectrum decays fast, and no look at the rounding that
// removing a spike of 300 tau leaves.
TEST_P(Operator, IsIdempotent) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
    for (const Spectrum& spectrum : all_spectra()) {
      const std::string name = spectrum.name;
      if (GetParam() == Method::sketched &&
          (name.starts_with("slow") || name.starts_with("flat") || name == "spiked")) {
        continue;
      }
      SCOPED_TRACE(std::string(to_string(type)) + ", " + name);
      ClipOptions options = options_of(GetParam());
      options.tolerance = work_epsilon(type);
      options.max_passes = 64;
      StoredMatrix G(type, sample(40, 56, spectrum.name));
      const ClipReport first = clip_singular_values(G.view(), spectrum.tau, options);
      const auto once = G.bytes();
      const ClipReport again = clip_singular_values(G.view(), spectrum.tau, options);
      EXPECT_TRUE(G.bytes() == once) << again.clipped << " clipped again, sigma_max " << first.sigma_max / spectrum.tau
                                     << " tau, then 1 + " << again.sigma_max / spectrum.tau - 1;
    }
  }
}

TEST_P(Operator, IsInvariantUnderChangesOfBasis) {
  std::mt19937_64 random(5);
  for (const char* name : {"fast decay", "spiked", "rank deficient"}) {
    const MatrixXd G = sample(48, 30, name);
    const MatrixXd P = random_basis(48, 48, random);
    const MatrixXd R = random_basis(30, 30, random);
    const double tau = spectrum_named(name).tau;
    EXPECT_TRUE(close(clipped(P * G * R, tau), P * clipped(G, tau) * R, slack(GetParam(), G, tau))) << name;
  }
}

TEST_P(Operator, IsOneLipschitz) {
  std::mt19937_64 random(6);
  for (int i = 0; i < repeats(40, 8); ++i) {
    const MatrixXd A = sample(30, 42, "fast decay", random());
    const double step = std::pow(10.0, -i % 7);
    const MatrixXd B = A + step * random_basis(42, 30, random).transpose() * (i % 2 == 0 ? 0.1 : 1e-4);
    const double tau = 0.3;
    EXPECT_LE((clipped(A, tau) - clipped(B, tau)).norm(), (A - B).norm() + 2 * slack(GetParam(), A, tau));
  }
}

TEST_P(Operator, ScalesByPowersOfTwoBitForBit) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
    const MatrixXd G = StoredMatrix(type, sample(40, 56, "fast decay")).values();
    const MatrixXd once = clipped(G, 0.3, type);
    for (const double a : {0.5, 2.0, 0x1p10, 0x1p-20}) {
      EXPECT_EQ(clipped(a * G, a * 0.3, type), a * once) << to_string(type) << ", a = " << a;
    }
  }
}

TEST_P(Operator, CommutesWithPermutations) {
  std::mt19937_64 random(8);
  const MatrixXd G = sample(48, 30, "fast decay");
  Eigen::PermutationMatrix<Eigen::Dynamic> rows(48);
  rows.setIdentity();
  std::shuffle(rows.indices().begin(), rows.indices().end(), random);
  EXPECT_TRUE(close(clipped(rows * G, 0.3), rows * clipped(G, 0.3), slack(GetParam(), G, 0.3)));
}

TEST_P(Operator, CommutesWithTransposition) {
  for (const auto& [rows, cols] : {std::pair{48, 30}, {30, 48}, {40, 40}, {1, 20}}) {
    const MatrixXd G = sample(rows, cols, "fast decay");
    EXPECT_TRUE(close(clipped(G.transpose(), 0.3).transpose(), clipped(G, 0.3), slack(GetParam(), G, 0.3)));
  }
}

TEST_P(Operator, TauZeroErases) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16}) {
    StoredMatrix G(type, sample(40, 56, "slow decay"));
    const ClipReport report = clip_singular_values(G.view(), 0, options_of(GetParam()));
    EXPECT_EQ(report.status, ClipStatus::ok);
    EXPECT_EQ(G.values(), MatrixXd::Zero(40, 56));
    EXPECT_TRUE(G.padding_intact());
    EXPECT_EQ(report.norm_after, 0);
    EXPECT_EQ(report.removed_energy, 1);
    EXPECT_NEAR(report.sigma_max, 1, 1e-2);  // measured all the same
  }
}

TEST_P(Operator, TakesHugeAndTinyMagnitudes) {
  for (const double size : {1e25, 1e-25}) {
    StoredMatrix G(ScalarType::float32, size * sample(40, 56, "fast decay"));
    const MatrixXd before = G.values();
    const ClipReport report = clip_singular_values(G.view(), 0.3 * size, options_of(GetParam()));
    EXPECT_EQ(report.status, ClipStatus::ok);
    EXPECT_EQ(report.clipped, 3);
    EXPECT_NEAR(report.sigma_max / size, 1, 10 * std::numeric_limits<float>::epsilon());
    const MatrixXd expected = before / size - removed_by_gram(before / size, 0.3).part;
    EXPECT_TRUE(close(G.values() / size, expected, slack(GetParam(), before / size, 0.3, ScalarType::float32)));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Operator, ::testing::ValuesIn(kMethods),
                         [](const auto& case_of) { return std::string(to_string(case_of.param)); });

}  // namespace
}  // namespace spectralclip::testing

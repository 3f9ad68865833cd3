// SPDX-License-Identifier: Apache-2.0
// `sketched` at rank 10, oversampling 5, one power pass against the sketch of the published clipper, a randomized SVD
// with q = 15 columns and one subspace iteration (Halko, Martinsson, Tropp 2011, algorithms 4.4 and 5.1), written here
// anew in float32: on the same matrices the error of the removed part must be no worse. Its factors can be used in two
// ways: D = U diag(sigma - tau) V^T, whose left vectors lack a half power step, or D = G V diag(1 - tau / sigma) V^T,
// which is ten to twenty times more accurate. The second is the yardstick; the first is printed beside it.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstdio>
#include <limits>

#include "spectralclip/clip.h"
#include "support/compare.h"
#include "support/factorizations.h"
#include "support/gradient_sequence.h"
#include "support/npy.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;

constexpr Index kColumns = 15;
constexpr Index kRank = 10;

MatrixXf orthonormal(const MatrixXf& A) { return orthonormal_basis(A.cast<double>()).cast<float>(); }

struct LowRank {
  MatrixXd by_factors;  // U diag(sigma - tau) V^T
  MatrixXd by_vectors;  // G V diag(1 - tau / sigma) V^T
};

// The removed part as svd_lowrank(q = 15, niter = 1) finds it, cut to rank 10; a wide G is transposed first.
LowRank removed_by_lowrank(const MatrixXf& G, double tau, std::mt19937_64& random) {
  if (G.rows() < G.cols()) {
    const LowRank turned = removed_by_lowrank(G.transpose(), tau, random);
    return {turned.by_factors.transpose(), turned.by_vectors.transpose()};
  }
  const Index q = std::min(kColumns, G.cols());
  MatrixXf Q = orthonormal(G * gaussian(G.cols(), q, random).cast<float>());
  Q = orthonormal(G.transpose() * Q);
  Q = orthonormal(G * Q);
  const MatrixXf B = Q.transpose() * G;
  const ExtendedSvd svd = jacobi_svd(B.cast<long double>());
  const auto limit = static_cast<float>(tau);
  const Index r = std::min((svd.sigma.array() > tau).count(), kRank);
  const Eigen::ArrayXf sigma = svd.sigma.head(r).cast<float>();
  const MatrixXf U = Q * svd.U.leftCols(r).cast<float>();
  const MatrixXf V = svd.V.leftCols(r).cast<float>();
  const MatrixXf by_factors = U * (sigma - limit).matrix().asDiagonal() * V.transpose();
  const MatrixXf by_vectors = (G * V) * (1 - limit / sigma).matrix().asDiagonal() * V.transpose();
  return {by_factors.cast<double>(), by_vectors.cast<double>()};
}

MatrixXd removed_by_sketch(const MatrixXd& G, double tau, std::uint64_t seed) {
  StoredMatrix stored(ScalarType::float32, G);
  const ClipOptions options{
      .method = Method::sketched, .rank = kRank, .oversampling = 5, .power_passes = 1, .seed = seed};
  const ClipReport report = clip_singular_values(stored.view(), tau, options);
  EXPECT_EQ(report.passes, 2);
  return G - stored.values();
}

// Two samples of about one distribution of errors: log errors spread by about 0.5, so the medians of 100 differ by 1.25
// once in a thousand times.
constexpr double kLuck = 1.25;

struct Errors {
  std::vector<double> sketched, lowrank, by_factors;
  std::vector<double> floor;  // eps ||G||_F / ||D||_F: D is read off a stored result here, the other side's is not

  // The matrix as float32 holds it, so that both see the same.
  void add(const MatrixXd& values, double tau, std::uint64_t seed) {
    const MatrixXf single = values.cast<float>();
    const MatrixXd G = single.cast<double>();
    const MatrixXd D = removed_by_gram(G, tau).part;
    if (D.norm() == 0) return;
    std::mt19937_64 random(~seed);  // not the matrix's own seed: its basis would reappear in the sketch
    const LowRank other = removed_by_lowrank(single, tau, random);
    lowrank.push_back((other.by_vectors - D).norm() / D.norm());
    by_factors.push_back((other.by_factors - D).norm() / D.norm());
    sketched.push_back((removed_by_sketch(G, tau, seed) - D).norm() / D.norm());
    floor.push_back(std::numeric_limits<float>::epsilon() * G.norm() / D.norm());
  }

  void expect_no_worse(const char* what) const {
    for (const double q : {0.5, 0.9}) {
      std::printf("%-26s n = %3zu  q = %.1f  sketched %.1e  svd_lowrank %.1e (as U S V^T %.1e)\n", what,
                  sketched.size(), q, quantile(sketched, q), quantile(lowrank, q), quantile(by_factors, q));
      EXPECT_LE(quantile(sketched, q), kLuck * quantile(lowrank, q) + quantile(floor, q)) << what << ", quantile " << q;
    }
  }
};

Eigen::VectorXd decaying(Index r, double power) {
  return Eigen::ArrayXd::LinSpaced(r, 1, static_cast<double>(r)).pow(-power);
}

void compare_on(const char* what, Index rows, Index cols, const Eigen::VectorXd& sigma, double tau) {
  Errors errors;
  for (int seed = 1; seed <= repeats(100, 10); ++seed) {
    errors.add(with_spectrum(rows, cols, sigma, static_cast<std::uint64_t>(seed)), tau,
               static_cast<std::uint64_t>(seed));
  }
  errors.expect_no_worse(what);
}

TEST(SketchedAgainstSvdLowrank, DecayingSpectra) {
  compare_on("1/i, 5 above", 120, 90, decaying(90, 1), 0.18);
  compare_on("1/i, wide", 90, 120, decaying(90, 1), 0.18);
  compare_on("1/sqrt(i), 3 above", 120, 90, decaying(90, 0.5), 0.55);
  compare_on("1/i^2, 10 above", 120, 90, decaying(90, 2), 0.0095);
}

TEST(SketchedAgainstSvdLowrank, SpikedSpectra) {
  Eigen::VectorXd sigma = 0.1 * Eigen::VectorXd::Ones(90);
  sigma.head(3) << 20, 3, 1;
  compare_on("spikes over a flat bulk", 120, 90, sigma, 0.5);
  sigma.tail(87) = 0.3 * decaying(87, 0.5);
  compare_on("spikes over a slow decay", 120, 90, sigma, 0.5);
}

TEST(SketchedAgainstSvdLowrank, RecordedGradientsWithSpikes) {
  const auto folder = gradients_folder();
  if (!folder) GTEST_SKIP() << kNoRecordedGradients;
  for (const char* file : kRecordedFiles) {
    const auto sequence = with_spikes(read_npy_sequence(*folder + "/" + file), 5, 3, 9);
    Errors errors;
    double largest = 0;  // tau: half the previous sigma_max, so that a few directions are clipped in every step
    for (std::size_t step = 0; step < sequence.size(); ++step) {
      if (quick() && step % 4 != 0) continue;
      for (std::uint64_t seed = 1; largest > 0 && seed <= 4; ++seed) {
        errors.add(sequence[step], 0.5 * largest, 4 * step + seed);
      }
      largest = (step + 1) % 5 == 0 ? largest : sigma_max_from_below(sequence[step]);
    }
    errors.expect_no_worse(file);
  }
}

}  // namespace
}  // namespace spectralclip::testing

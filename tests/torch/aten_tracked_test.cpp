// SPDX-License-Identifier: Apache-2.0
// `tracked` by ATen operators over training runs: the accuracy that the core is held to, state that survives what is
// not finite and what is huge, equal bits on every run, batches equal to single matrices.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "conformance/tracked_accuracy.h"
#include "constants.h"
#include "support/factorizations.h"
#include "support/oracle.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;

MakeClip tracked_by_aten(const ClipOptions& options) {
  return [options](std::int64_t, std::int64_t) {
    const auto clipper = std::make_shared<AtenClipper>(options);
    return [clipper](const AnyMatrix& G, double tau) { return clipper->clip(G, tau); };
  };
}

// Four, eight (the default) and twelve vectors kept; a fixed rank keeps as many as it may lower.
const ClipOptions kWidths[] = {{.rank = 4}, {}, {.rank = 12}};

// Two reads prove less than they find: in so many steps at most the certificate does not reach tau (1 + margin).
constexpr double kUnsure = 0.1;

void print_width(const ClipOptions& options) {
  std::printf("%d vectors kept:\n", static_cast<int>(options.rank.value_or(torch::aten::kKeptColumns)));
}

TEST(AtenTrackedAccuracy, OnGeneratedSequences) {
  for (const ClipOptions& options : kWidths) {
    print_width(options);
    expect_default_accuracy(measure_generated(tracked_by_aten(options)), kUnsure);
  }
}

TEST(AtenTrackedAccuracy, OnRecordedGradients) {
  if (!gradients_folder()) GTEST_SKIP() << kNoRecordedGradients;
  for (const ClipOptions& options : kWidths) {
    print_width(options);
    for (const char* file : kRecordedFiles) {
      for (const int every : {0, 5})
        expect_default_accuracy(measure_recorded(file, every, tracked_by_aten(options)), kUnsure);
    }
  }
}

std::vector<MatrixXd> sequence_of(int steps, std::uint64_t seed) {
  GradientSequence sequence({.rows = 90, .cols = 60, .seed = seed});
  std::vector<MatrixXd> matrices;
  for (int i = 0; i < steps; ++i) matrices.push_back(sequence.next());
  return matrices;
}

struct BatchRun {
  std::vector<at::Tensor> results;  // per step: L x m x n
  std::vector<at::Tensor> reports;  // per step: L x fields
};

// L sequences side by side in one batch.
BatchRun run_batch(const std::vector<std::vector<MatrixXd>>& sequences, const std::vector<std::int64_t>& ids,
                   const ClipOptions& options, at::ScalarType type = at::kFloat) {
  BatchRun run;
  torch::aten::BatchSubspace state;
  const auto L = static_cast<std::int64_t>(sequences.size());
  for (std::size_t step = 0; step < sequences[0].size(); ++step) {
    std::vector<at::Tensor> matrices;
    for (const auto& sequence : sequences) matrices.push_back(to_tensor(sequence[step]).to(type));
    const at::Tensor tau = at::full({L}, 0.5, at::kDouble);
    run.reports.push_back(torch::aten::clip_batch(matrices, tau, options, {options.seed, ids}, state));
    run.results.push_back(at::stack(matrices));
  }
  return run;
}

TEST(AtenBatch, SameBitsOnEveryRun) {
  for (const Method method : {Method::tracked, Method::sketched, Method::gram}) {
    const std::vector<std::vector<MatrixXd>> sequences = {sequence_of(4, 1), sequence_of(4, 2)};
    const BatchRun first = run_batch(sequences, {3, 4}, {.method = method});
    const BatchRun second = run_batch(sequences, {3, 4}, {.method = method});
    for (std::size_t step = 0; step < 4; ++step) {
      EXPECT_TRUE(at::equal(first.results[step], second.results[step]));
      EXPECT_TRUE(at::equal(first.reports[step], second.reports[step]));
    }
  }
}

TEST(AtenBatch, SeedAndIdAreTheRandomness) {
  const std::vector<std::vector<MatrixXd>> sequences = {sequence_of(1, 1)};
  const BatchRun run = run_batch(sequences, {3}, {});
  EXPECT_FALSE(at::equal(run.results[0], run_batch(sequences, {4}, {}).results[0]));
  EXPECT_FALSE(at::equal(run.results[0], run_batch(sequences, {3}, {.seed = 1}).results[0]));
}

// Products of a batch may be summed in another order than those of one matrix; nothing else may differ.
TEST(AtenBatch, EqualsOneByOne) {
  for (const Method method : {Method::tracked, Method::sketched, Method::gram}) {
    const std::vector<std::vector<MatrixXd>> sequences = {sequence_of(4, 1), sequence_of(4, 2), sequence_of(4, 3)};
    const BatchRun together = run_batch(sequences, {7, 8, 9}, {.method = method}, at::kDouble);
    for (std::int64_t i = 0; i < 3; ++i) {
      const BatchRun alone =
          run_batch({sequences[static_cast<std::size_t>(i)]}, {7 + i}, {.method = method}, at::kDouble);
      for (std::size_t step = 0; step < 4; ++step) {
        const at::Tensor expected = alone.results[step][0];
        // A subspace turned by rounding moves the result by the error that the estimate admits, and by no more.
        const double error = method == Method::gram ? 0.0 : alone.reports[step][0][10].item<double>();
        const double near = (1e-12 + 1e-9 * error) * expected.norm().item<double>();
        EXPECT_LE((together.results[step][i] - expected).norm().item<double>(), near);
      }
    }
  }
}

// A step that is not finite leaves no trace: state, random columns and results of later steps are as if it had not
// been.
TEST(AtenTracked, NotFiniteStepsLeaveNoTrace) {
  std::vector<MatrixXd> plain = sequence_of(6, 4);
  const std::vector<MatrixXd> other = sequence_of(7, 5);
  std::vector<MatrixXd> poisoned = plain;
  MatrixXd poison = plain[2];
  poison(3, 5) = std::numeric_limits<double>::quiet_NaN();
  poisoned.insert(poisoned.begin() + 2, poison);
  const BatchRun expected = run_batch({plain, {other.begin(), other.begin() + 6}}, {1, 2}, {});
  const BatchRun run = run_batch({poisoned, other}, {1, 2}, {});
  EXPECT_EQ(read_reports(run.reports[2])[0].status, ClipStatus::not_finite);
  EXPECT_EQ(read_reports(run.reports[2])[1].status, ClipStatus::ok);
  for (const std::size_t step : {0u, 1u}) EXPECT_TRUE(at::equal(run.results[step][0], expected.results[step][0]));
  for (std::size_t step = 2; step < 6; ++step) {
    EXPECT_TRUE(at::equal(run.results[step + 1][0], expected.results[step][0])) << step;
  }
}

// A spike ten thousand times larger than everything else swamps a pass; what was known before must come back out of it.
TEST(AtenTracked, AHugeSpikeDoesNotWipeTheMemory) {
  GradientSequence sequence({.rows = 150, .cols = 120, .spike_every = 0, .seed = 6});
  AtenClipper clipper;
  std::mt19937_64 random(7);
  MatrixXd G;
  for (int step = 0; step < 5; ++step) {
    G = sequence.next();
    StoredMatrix stored(ScalarType::float32, step == 3 ? G + random_rank_one(150, 120, 1e4, random) : G);
    const ClipReport report = clipper.clip(stored.view(), kInfinity);
    EXPECT_NEAR(report.sigma_max, spectral_norm(stored.values()), 1e-4 * report.sigma_max) << step;
    if (step < 3) continue;
    const MatrixXd V = to_eigen(clipper.state().V[0]);
    const ExtendedSvd svd = jacobi_svd(G.cast<long double>());
    for (Index i = 0; i < 3; ++i) {
      EXPECT_GT((V.transpose() * svd.V.col(i).cast<double>()).norm(), 0.99) << "step " << step << ", vector " << i;
    }
  }
}

TEST(AtenTracked, AFixedRankIsReportedWhenItIsUsedUp) {
  Eigen::VectorXd sigma = 0.1 * Eigen::VectorXd::Ones(60);
  sigma.head(5).setConstant(3);
  const MatrixXd values = with_spectrum(80, 60, sigma, 3);
  for (const auto& [rank, status] : {std::pair{3, ClipStatus::rank_exhausted}, {7, ClipStatus::ok}}) {
    StoredMatrix G(ScalarType::float32, values);
    const ClipReport report = clip_by_aten(G.view(), 1, {.rank = rank});
    EXPECT_EQ(report.status, status);
    EXPECT_EQ(report.clipped, std::min(rank, 5));
    EXPECT_NEAR(spectral_norm(G.values()), rank == 3 ? 3 : 1, 1e-4);
    EXPECT_LE(spectral_norm(G.values()), report.sigma_bound);
  }
}

// The certificate on spectra of all kinds, tau anywhere among their values, warm and cold: nothing left is above the
// bound. A bound by the probe may fail once in a thousand times; it is so loose that none of these does.
TEST(AtenTracked, NothingLeftIsAboveTheBound) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::int64_t L = repeats(100, 10);
  std::vector<at::Tensor> matrices;
  std::vector<double> taus;
  torch::aten::BatchStream stream;
  for (std::int64_t i = 0; i < L; ++i) {
    Eigen::VectorXd sigma = (gaussian(28, 1, random).array() * 3 * uniform(random)).exp();
    std::sort(sigma.begin(), sigma.end(), std::greater<>());
    matrices.push_back(to_tensor(with_spectrum(40, 28, sigma, static_cast<std::uint64_t>(i))).to(at::kFloat));
    taus.push_back(sigma[static_cast<Index>(random() % 12)] * (0.5 + uniform(random)));
    stream.matrix_ids.push_back(i);
  }
  torch::aten::BatchSubspace state;
  double tightest = kInfinity;
  for (int step = 0; step < 2; ++step) {
    std::vector<at::Tensor> clipped;
    for (const at::Tensor& G : matrices) clipped.push_back(G.clone());
    const auto reports = read_reports(torch::aten::clip_batch(clipped, as_tensor(taus), {}, stream, state));
    for (std::size_t i = 0; i < reports.size(); ++i) {
      const double left = spectral_norm(to_eigen(clipped[i]));
      EXPECT_LE(left, reports[i].sigma_bound) << "matrix " << i << ", " << to_string(reports[i].bound_kind);
      tightest = std::min(tightest, reports[i].sigma_bound / left);
    }
  }
  EXPECT_LT(tightest, 1 + 1e-3) << "a bound this loose would hold for anything";
}

// Warm steps take two passes, the first of a state four.
TEST(AtenTracked, PassesAreFixed) {
  AtenClipper clipper;
  for (const int expected : {4, 2, 2}) {
    StoredMatrix G(ScalarType::float32, sequence_of(1, 9)[0]);
    EXPECT_EQ(clipper.clip(G.view(), 0.3).passes, expected);
  }
}

}  // namespace
}  // namespace spectralclip::testing

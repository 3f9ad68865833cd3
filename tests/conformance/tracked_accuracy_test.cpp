// SPDX-License-Identifier: Apache-2.0
// How accurate `tracked` is over a training run: relative error of the removed part D on gradient-like sequences and on
// recorded gradients with spikes, thresholds by the default EMA. A table of what was measured goes to stdout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "spectralclip/clip.h"
#include "spectralclip/threshold.h"
#include "support/compare.h"
#include "support/gradient_sequence.h"
#include "support/npy.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::MatrixXd;

constexpr double kRelevant = 1e-5;  // steps in which sigma_max exceeds tau by less have no D to speak of

struct Measured {
  std::vector<double> errors;        // ||D_hat - D||_F / ||D||_F
  std::vector<double> floors;        // eps ||G||_F / ||D||_F: what storing the result costs
  std::vector<double> sigma_errors;  // of sigma_max, in every step
  double passes = 0;
  int steps = 0;

  void print(const char* what) const {
    std::printf("%-34s steps %3d  clipped %3zu  passes %.2f  error %.1e / %.1e  sigma_max %.1e / %.1e\n", what, steps,
                errors.size(), passes / steps, median(errors), quantile(errors, 0.9), median(sigma_errors),
                quantile(sigma_errors, 0.9));
  }
};

void measure_step(MatrixClipper& clipper, const MatrixXd& values, double tau, Measured& measured, double& sigma_max) {
  StoredMatrix stored(ScalarType::float32, values);
  const MatrixXd G = stored.values();
  const Removed truth = removed_by_gram(G, tau);
  const ClipReport report = clipper.clip(stored.view(), tau);
  EXPECT_EQ(report.status, ClipStatus::ok);
  sigma_max = truth.sigma_max;
  measured.passes += report.passes;
  ++measured.steps;
  measured.sigma_errors.push_back(std::abs(report.sigma_max - truth.sigma_max) / truth.sigma_max);
  if (!(truth.sigma_max > tau * (1 + kRelevant))) return;
  const double size = truth.part.norm();
  measured.errors.push_back((G - stored.values() - truth.part).norm() / size);
  measured.floors.push_back(std::numeric_limits<float>::epsilon() * G.norm() / size);
}

// `next` yields the matrix of a step; thresholds come from the true sigma_max of the steps before.
void measure(const std::function<MatrixXd()>& next, int steps, const ClipOptions& options, Measured& measured) {
  const ThresholdOptions policy;
  ThresholdState state = make_threshold_state(policy);
  std::optional<MatrixClipper> clipper;
  for (int step = 0; step < steps; ++step) {
    const MatrixXd G = next();
    if (!clipper) clipper.emplace(G.rows(), G.cols(), options);
    double sigma_max = 0;
    measure_step(*clipper, G, threshold(policy, state), measured, sigma_max);
    observe(policy, state, sigma_max);
  }
}

Measured measure_generated(const ClipOptions& options) {
  Measured all;
  for (const auto& [rows, cols, drift, bulk] :
       {std::tuple{200, 120, 0.05, 0.1}, {120, 200, 0.2, 0.05}, {96, 96, 0.02, 0.3}, {300, 64, 0.1, 0.2}}) {
    GradientSequence sequence({.rows = rows, .cols = cols, .drift = drift, .bulk = bulk, .seed = 5});
    Measured measured;
    measure([&] { return sequence.next(); }, repeats(80, 15), options, measured);
    char what[80];
    std::snprintf(what, sizeof what, "%d x %d, drift %.2f, bulk %.2f", rows, cols, drift, bulk);
    measured.print(what);
    all.errors.insert(all.errors.end(), measured.errors.begin(), measured.errors.end());
    all.floors.insert(all.floors.end(), measured.floors.begin(), measured.floors.end());
  }
  return all;
}

Measured measure_recorded(const std::string& file, int spike_every, const ClipOptions& options) {
  auto sequence = read_npy_sequence(*gradients_folder() + "/" + file);
  if (spike_every > 0) sequence = with_spikes(std::move(sequence), spike_every, 3, 4);
  if (quick()) sequence.resize(6);
  Measured measured;
  std::size_t step = 0;
  measure([&] { return sequence[step++]; }, static_cast<int>(sequence.size()), options, measured);
  measured.print((file + (spike_every > 0 ? " + spikes" : "")).c_str());
  return measured;
}

void expect_default_accuracy(const Measured& measured) {
  ASSERT_GT(measured.errors.size(), 2u);
  EXPECT_LE(median(measured.errors), 1e-4);
  EXPECT_LE(quantile(measured.errors, 0.9), 1e-3);
}

const ClipOptions kTight{.tolerance = 1e-6, .max_passes = 8};

// What was asked for plus what float32 storage costs; svd_lowrank(q = 15, niter = 1) is at 7e-6 on recorded gradients.
void expect_tight_accuracy(const Measured& measured) {
  ASSERT_GT(measured.errors.size(), 2u);
  EXPECT_LE(median(measured.errors), kTight.tolerance + median(measured.floors));
}

TEST(TrackedAccuracy, OnGeneratedSequences) { expect_default_accuracy(measure_generated({})); }

TEST(TrackedAccuracy, OnGeneratedSequencesWithATightTolerance) { expect_tight_accuracy(measure_generated(kTight)); }

TEST(TrackedAccuracy, OnRecordedGradients) {
  if (!gradients_folder()) GTEST_SKIP() << kNoRecordedGradients;
  for (const char* file : kRecordedFiles) {
    for (const int spike_every : {0, 5}) expect_default_accuracy(measure_recorded(file, spike_every, {}));
  }
}

TEST(TrackedAccuracy, OnRecordedGradientsWithATightTolerance) {
  if (!gradients_folder()) GTEST_SKIP() << kNoRecordedGradients;
  for (const char* file : kRecordedFiles) expect_tight_accuracy(measure_recorded(file, 5, kTight));
}

}  // namespace
}  // namespace spectralclip::testing

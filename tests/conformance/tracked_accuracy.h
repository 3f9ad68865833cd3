// SPDX-License-Identifier: Apache-2.0
// How accurate a tracking clipper is over a training run: relative error of the removed part D on gradient-like
// sequences and on recorded gradients with spikes, thresholds by the default EMA. A table of what was measured goes to
// stdout.
#pragma once

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

using Eigen::MatrixXd;

// One step of a matrix that is tracked by whoever made the function.
using ClipStep = std::function<ClipReport(const AnyMatrix& G, double tau)>;
using MakeClip = std::function<ClipStep(std::int64_t rows, std::int64_t cols)>;

inline constexpr double kRelevant = 1e-5;  // steps in which sigma_max exceeds tau by less have no D to speak of

struct Measured {
  std::vector<double> errors;        // ||D_hat - D||_F / ||D||_F
  std::vector<double> floors;        // eps ||G||_F / ||D||_F: what storing the result costs
  std::vector<double> sigma_errors;  // of sigma_max, in every step
  std::vector<double> tightness;     // sigma_bound / sigma_max of what is left, in every step
  double passes = 0;
  int steps = 0;
  int unsure = 0;  // of them not_converged

  void print(const char* what) const {
    std::printf(
        "%-34s steps %3d  unsure %2d  clipped %3zu  passes %.2f  error %.1e / %.1e  sigma_max %.1e / %.1e / %.1e  "
        "bound %.3f / %.3f\n",
        what, steps, unsure, errors.size(), passes / steps, median(errors), quantile(errors, 0.9), median(sigma_errors),
        quantile(sigma_errors, 0.9), quantile(sigma_errors, 1), median(tightness), quantile(tightness, 0.9));
  }
};

inline void measure_step(const ClipStep& clip, const MatrixXd& values, double tau, Measured& measured,
                         double& sigma_max) {
  StoredMatrix stored(ScalarType::float32, values);
  const MatrixXd G = stored.values();
  const Removed truth = removed_by_gram(G, tau);
  const ClipReport report = clip(stored.view(), tau);
  EXPECT_TRUE(report.status == ClipStatus::ok || report.status == ClipStatus::not_converged);
  measured.unsure += report.status == ClipStatus::not_converged ? 1 : 0;
  sigma_max = truth.sigma_max;
  const double left = report.clipped > 0 ? sigma_max_of(stored.values()) : sigma_max;
  measured.tightness.push_back(report.sigma_bound / left);
  measured.passes += report.passes;
  ++measured.steps;
  measured.sigma_errors.push_back(std::abs(report.sigma_max - truth.sigma_max) / truth.sigma_max);
  if (!(truth.sigma_max > tau * (1 + kRelevant))) return;
  const double size = truth.part.norm();
  measured.errors.push_back((G - stored.values() - truth.part).norm() / size);
  measured.floors.push_back(std::numeric_limits<float>::epsilon() * G.norm() / size);
}

// `next` yields the matrix of a step; thresholds come from the true sigma_max of the steps before.
inline void measure(const std::function<MatrixXd()>& next, int steps, const MakeClip& make, Measured& measured) {
  const ThresholdOptions policy;
  ThresholdState state = make_threshold_state(policy);
  ClipStep clip;
  for (int step = 0; step < steps; ++step) {
    const MatrixXd G = next();
    if (!clip) clip = make(G.rows(), G.cols());
    double sigma_max = 0;
    measure_step(clip, G, threshold(policy, state), measured, sigma_max);
    observe(policy, state, sigma_max);
  }
}

inline Measured measure_generated(const MakeClip& make) {
  Measured all;
  for (const auto& [rows, cols, drift, bulk] :
       {std::tuple{200, 120, 0.05, 0.1}, {120, 200, 0.2, 0.05}, {96, 96, 0.02, 0.3}, {300, 64, 0.1, 0.2}}) {
    GradientSequence sequence({.rows = rows, .cols = cols, .drift = drift, .bulk = bulk, .seed = 5});
    Measured measured;
    measure([&] { return sequence.next(); }, repeats(80, 15), make, measured);
    char what[80];
    std::snprintf(what, sizeof what, "%d x %d, drift %.2f, bulk %.2f", rows, cols, drift, bulk);
    measured.print(what);
    all.errors.insert(all.errors.end(), measured.errors.begin(), measured.errors.end());
    all.floors.insert(all.floors.end(), measured.floors.begin(), measured.floors.end());
    all.steps += measured.steps;
    all.unsure += measured.unsure;
  }
  return all;
}

inline Measured measure_recorded(const std::string& file, int spike_every, const MakeClip& make) {
  auto sequence = read_npy_sequence(*gradients_folder() + "/" + file);
  if (spike_every > 0) sequence = with_spikes(std::move(sequence), spike_every, 3, 4);
  if (quick()) sequence.resize(6);
  Measured measured;
  std::size_t step = 0;
  measure([&] { return sequence[step++]; }, static_cast<int>(sequence.size()), make, measured);
  measured.print((file + (spike_every > 0 ? " + spikes" : "")).c_str());
  return measured;
}

// unsure: the share of steps that may say not_converged (an engine that reads a fixed number of times cannot read on).
inline void expect_default_accuracy(const Measured& measured, double unsure = 0) {
  EXPECT_LE(measured.unsure, unsure * measured.steps);
  ASSERT_GT(measured.errors.size(), 2u);
  EXPECT_LE(median(measured.errors), 1e-4);
  EXPECT_LE(quantile(measured.errors, 0.9), 1e-3);
}

// What thresholds learn from, and what a reader of the report is told may be left.
inline void expect_useful_report(const Measured& measured) {
  EXPECT_LE(median(measured.sigma_errors), 1e-3);
  EXPECT_LE(quantile(measured.sigma_errors, 0.9), 3e-3);
  EXPECT_LE(quantile(measured.sigma_errors, 1), 3e-2);
  EXPECT_LE(median(measured.tightness), 1.3);
  EXPECT_LE(quantile(measured.tightness, 0.9), 1.7);
  EXPECT_GE(quantile(measured.tightness, 0), 1 - 1e-6);
}

}  // namespace spectralclip::testing

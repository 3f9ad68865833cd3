// SPDX-License-Identifier: Apache-2.0
// The accuracy of the core's `tracked` over training runs, at its default and at a tight tolerance.
#include "conformance/tracked_accuracy.h"

#include <memory>

namespace spectralclip::testing {
namespace {

MakeClip tracked_by_core(const ClipOptions& options) {
  return [options](std::int64_t rows, std::int64_t cols) {
    const auto clipper = std::make_shared<MatrixClipper>(rows, cols, options);
    return [clipper](const AnyMatrix& G, double tau) { return clipper->clip(G, tau); };
  };
}

const ClipOptions kTight{.tolerance = 1e-6, .max_passes = 8};

// What was asked for plus what float32 storage costs; svd_lowrank(q = 15, niter = 1) is at 7e-6 on recorded gradients.
void expect_tight_accuracy(const Measured& measured) {
  ASSERT_GT(measured.errors.size(), 2u);
  EXPECT_LE(median(measured.errors), kTight.tolerance + median(measured.floors));
}

TEST(TrackedAccuracy, OnGeneratedSequences) { expect_default_accuracy(measure_generated(tracked_by_core({}))); }

TEST(TrackedAccuracy, OnGeneratedSequencesWithATightTolerance) {
  expect_tight_accuracy(measure_generated(tracked_by_core(kTight)));
}

TEST(TrackedAccuracy, OnRecordedGradients) {
  if (!gradients_folder()) GTEST_SKIP() << kNoRecordedGradients;
  for (const char* file : kRecordedFiles) {
    for (const int spike_every : {0, 5}) {
      const Measured measured = measure_recorded(file, spike_every, tracked_by_core({}));
      expect_default_accuracy(measured);
      expect_useful_report(measured);
    }
  }
}

TEST(TrackedAccuracy, OnRecordedGradientsWithATightTolerance) {
  if (!gradients_folder()) GTEST_SKIP() << kNoRecordedGradients;
  for (const char* file : kRecordedFiles) expect_tight_accuracy(measure_recorded(file, 5, tracked_by_core(kTight)));
}

}  // namespace
}  // namespace spectralclip::testing

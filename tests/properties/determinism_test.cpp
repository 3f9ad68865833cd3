// SPDX-License-Identifier: Apache-2.0
// Equal bits for any number of threads, on repeated runs and for any row stride.
#include <gtest/gtest.h>

#include <string>

#include "spectralclip/clip.h"
#include "spectralclip/clipper.h"
#include "support/gradient_sequence.h"
#include "support/oracle.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr int kThreads[] = {1, 2, 3, 8};

// A few directions over a noise bulk; 2100 x 1024 is more than one slab of a million entries.
MatrixXd layer(Index rows, Index cols, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MatrixXd G =
      gaussian(rows, cols, random) / (std::sqrt(static_cast<double>(rows)) + std::sqrt(static_cast<double>(cols)));
  for (const double strength : {9.0, 4.0, 2.5}) G += random_rank_one(rows, cols, strength, random);
  return G;
}

void expect_same(const ClipReport& a, const ClipReport& b) {
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.clipped, b.clipped);
  EXPECT_EQ(a.sigma_max, b.sigma_max);
  EXPECT_EQ(a.norm_before, b.norm_before);
  EXPECT_EQ(a.norm_after, b.norm_after);
  EXPECT_EQ(a.sigma_bound, b.sigma_bound);
  EXPECT_EQ(a.passes, b.passes);
}

TEST(Determinism, ThreadsDoNotChangeOneMatrix) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::bfloat16}) {
    const StoredMatrix G(type, layer(quick() ? 1100 : 2100, quick() ? 2000 : 1024, 1));
    for (const Method method : {Method::tracked, Method::sketched}) {
      StoredMatrix serial = G;
      const ClipReport expected = clip_singular_values(serial.view(), 1.5, {.method = method});
      EXPECT_EQ(expected.clipped, 3);
      for (const int threads : kThreads) {
        ThreadPool pool(threads);
        for (int run = 0; run < 2; ++run) {
          StoredMatrix copy = G;
          expect_same(clip_singular_values(copy.view(), 1.5, {.method = method}, pool), expected);
          EXPECT_EQ(copy.bytes(), serial.bytes()) << to_string(method) << ", " << threads << " threads, run " << run;
        }
      }
    }
  }
}

constexpr std::int64_t kShapes[][2] = {{64, 64}, {200, 48}, {48, 200}, {1, 300}, {7, 5}, {1500, 800}, {130, 130}};

// All gradients of `steps` steps after clipping, one after another.
std::vector<std::vector<std::uint8_t>> run_clipper(Executor& executor, int steps) {
  std::vector<Parameter> parameters;
  for (const auto& shape : kShapes)
    parameters.push_back({"w" + std::to_string(parameters.size()), {shape[0], shape[1]}});
  Clipper clipper(parameters, {.threshold = {.kind = ThresholdKind::constant, .tau = 1.5}});
  std::vector<std::vector<std::uint8_t>> results;
  for (int step = 0; step < steps; ++step) {
    std::vector<StoredMatrix> matrices;
    std::vector<Gradient> gradients;
    for (const auto& shape : kShapes) {
      const auto type = matrices.size() % 3 == 2 ? ScalarType::bfloat16 : ScalarType::float32;
      matrices.emplace_back(type,
                            layer(shape[0], shape[1], matrices.size() * 100 + static_cast<std::uint64_t>(step / 2)));
    }
    for (StoredMatrix& m : matrices) gradients.push_back({m.view().data, m.view().type, m.view().row_stride});
    EXPECT_GE(clipper.step(gradients, executor).layers_clipped, 6);
    for (const StoredMatrix& m : matrices) results.push_back(m.bytes());
  }
  results.push_back(clipper.serialize());
  return results;
}

TEST(Determinism, ThreadsDoNotChangeAClipper) {
  const int steps = repeats(4, 2);
  const auto expected = run_clipper(serial_executor(), steps);
  EXPECT_EQ(run_clipper(serial_executor(), steps), expected) << "a second run";
  for (const int threads : kThreads) {
    ThreadPool pool(threads);
    EXPECT_EQ(run_clipper(pool, steps), expected) << threads << " threads";
  }
}

TEST(Determinism, StridesDoNotChangeTheResult) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16}) {
    for (const Method method :
         {Method::exact, Method::gram, Method::sketched, Method::tracked, Method::newton_schulz}) {
      const MatrixXd G = layer(57, 43, 2);
      StoredMatrix packed(type, G, 0);
      clip_singular_values(packed.view(), 1.5, {.method = method});
      for (const Index padding : {1, 3, 5, 21}) {
        StoredMatrix padded(type, G, padding);
        clip_singular_values(padded.view(), 1.5, {.method = method});
        EXPECT_EQ(padded.values(), packed.values())
            << to_string(method) << ", " << to_string(type) << ", padding " << padding;
        EXPECT_TRUE(padded.padding_intact());
      }
    }
  }
}

TEST(Determinism, SeedsAndStepsDrawDifferentColumns) {
  const MatrixXd G = layer(90, 70, 3);
  StoredMatrix first(ScalarType::float32, G);
  StoredMatrix second(ScalarType::float32, G);
  const ClipReport a = clip_singular_values(first.view(), 1.5, {.method = Method::sketched, .seed = 1});
  const ClipReport b = clip_singular_values(second.view(), 1.5, {.method = Method::sketched, .seed = 2});
  EXPECT_EQ(a.clipped, b.clipped);
  EXPECT_NE(a.sigma_bound, b.sigma_bound);
}

}  // namespace
}  // namespace spectralclip::testing

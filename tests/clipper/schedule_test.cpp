// SPDX-License-Identifier: Apache-2.0
// Who runs what, and that nothing but time depends on it.
#include "clipper/schedule.h"

#include <gtest/gtest.h>

#include <map>

#include "clipper/toy_model.h"
#include "random/name_hash.h"

namespace spectralclip {
namespace {

using testing::make_mixed_model;
using testing::mixed_options;
using testing::ToyModel;

TEST(Clipper, EqualBitsForAnyNumberOfThreads) {
  std::vector<std::vector<std::uint8_t>> gradients;
  std::vector<std::vector<std::uint8_t>> states;
  std::vector<double> norms;
  for (const int threads : {1, 2, 3, 8}) {
    ToyModel model = make_mixed_model();
    model.add("large.weight", {200, 150});  // above the limit from two threads on: clipped with the pool inside
    ThreadPool pool(threads);
    Clipper clipper(model.parameters(), mixed_options());
    double norm = 0;
    for (int step = 0; step < 9; ++step) {
      model.fill(step);
      norm += clipper.step(model.gradients(), pool).norm_after;
    }
    norms.push_back(norm);
    gradients.push_back(model.all_bytes());
    states.push_back(clipper.serialize());
  }
  for (std::size_t i = 1; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i], gradients[0]);
    EXPECT_EQ(states[i], states[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

TEST(Clipper, OwnPoolGivesTheSameBits) {
  ToyModel model = make_mixed_model();
  ToyModel other = make_mixed_model();
  Clipper own(model.parameters(), mixed_options());
  Clipper serial(model.parameters(), mixed_options());
  for (int step = 0; step < 3; ++step) {
    model.fill(step);
    other.fill(step);
    (void)own.step(model.gradients());
    (void)serial.step(other.gradients(), serial_executor());
  }
  EXPECT_EQ(model.all_bytes(), other.all_bytes());
  const Clipper moved = std::move(own);
  EXPECT_EQ(moved.steps(), 3);
  EXPECT_GT(moved.workspace_bytes(), 0);
}

TEST(Schedule, LargestFirstAndOnlyTheLargeOnesRunAlone) {
  const std::int64_t entries[] = {5, 100, 20, 100, 1000, 3};
  const Schedule schedule(entries);
  const std::vector<std::size_t> order(schedule.order().begin(), schedule.order().end());
  EXPECT_EQ(order, (std::vector<std::size_t>{4, 1, 3, 2, 0, 5}));  // equal ones in layer order
  EXPECT_EQ(schedule.wide_layers(1), 0U);
  EXPECT_EQ(schedule.wide_layers(2), 1U);  // above 1228 / 8 = 153
  EXPECT_EQ(schedule.wide_layers(4), 3U);  // above 76
}

TEST(NameHash, TellsNamesAndIndicesApart) {
  std::map<std::uint64_t, int> seen;
  for (int i = 0; i < 2000; ++i) ++seen[matrix_id_of("h." + std::to_string(i) + ".weight", i % 7)];
  for (int i = 0; i < 2000; ++i) ++seen[matrix_id_of("experts", i)];
  EXPECT_EQ(seen.size(), 4000U);
  static_assert(name_hash("") == mixed_bits(0xcbf29ce484222325ULL));
}

}  // namespace
}  // namespace spectralclip

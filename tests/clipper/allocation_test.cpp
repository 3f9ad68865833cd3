// SPDX-License-Identifier: Apache-2.0
// After warm-up a step allocates nothing. The counter is proved to see every kind of allocation before it is believed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "clipper/toy_model.h"
#include "support/counted_allocations.h"

namespace spectralclip {
namespace {

using testing::allocations;
using testing::make_mixed_model;
using testing::mixed_options;
using testing::ToyModel;

// Keeps the compiler from removing an allocation that nobody reads.
void use(void* block) { asm volatile("" : : "r"(block) : "memory"); }

TEST(Allocation, TheCounterSeesNewAndMalloc) {
  std::int64_t before = allocations;
  const auto object = std::make_unique<int>(3);
  use(object.get());
  EXPECT_GT(allocations, before);
  before = allocations;
  struct alignas(64) Wide {
    char bytes[64];
  };
  const auto wide = std::make_unique<Wide>();
  use(wide.get());
  EXPECT_GT(allocations, before);
#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
  before = allocations;
  void* const block = std::malloc(100);
  use(block);
  std::free(block);
  EXPECT_GT(allocations, before);
#endif
}

class AllocationTest : public ::testing::TestWithParam<int> {};

// Steps 1 to 11 hold quiet ones and, every third, spikes in all layers. The rank is fixed: one that grows may allocate.
TEST_P(AllocationTest, NothingAfterTheFirstStep) {
  ToyModel model = make_mixed_model();
  model.add("large.weight", {200, 150});
  ClipperOptions options = mixed_options();
  options.clip.rank = 4;
  ThreadPool pool(GetParam());
  Clipper clipper(model.parameters(), options);
  const auto gradients = model.gradients();
  std::int64_t clipped_steps = 0;
  for (int step = 0; step < 12; ++step) {
    model.fill(step);
    const std::int64_t before = allocations;
    const StepReport report = clipper.step(gradients, pool);
    const std::int64_t made = allocations - before;
    if (step > 0) {
      EXPECT_EQ(made, 0) << "in step " << step << ", which clipped " << report.layers_clipped;
    }
    if (step > 0 && report.layers_clipped > 0) ++clipped_steps;
  }
  EXPECT_GE(clipped_steps, 3);
}

// The sums of one rank are what it brings.
struct Alone final : Reduction {
  void sum(std::span<const SumBlock> blocks) override { numbers += packed_count(blocks, ScalarType::float32); }
  std::int64_t numbers = 0;
};

// The same in rounds, with all searched layers split by rows or by columns, and a batch that lies on ranks as a whole.
// Layers that go to `gram` factorise, which allocates: there are none.
TEST_P(AllocationTest, NothingAfterTheFirstStepInRounds) {
  ToyModel model;
  model.add("attn.weight", {72, 61});
  model.add("mlp.weight", {56, 90});
  model.add("half.weight", {64, 56}, ScalarType::bfloat16);
  model.add("double.weight", {70, 52}, ScalarType::float64);
  model.add("experts", {3, 70, 64}, ScalarType::float32, 2);
  model.add("norm.bias", {37}, ScalarType::float32, 0);
  ClipperOptions options = mixed_options();
  options.clip.rank = 4;
  std::vector<Parameter> parameters = model.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const int axis = p == 1 ? 1 : 0;
    parameters[p].shard = {.axis = axis, .extent = parameters[p].shape[static_cast<std::size_t>(axis)]};
  }
  ThreadPool pool(GetParam());
  Clipper clipper(parameters, options);
  const auto gradients = model.gradients();
  Alone reduction;
  std::int64_t clipped_steps = 0;
  for (int step = 0; step < 12; ++step) {
    model.fill(step);
    const std::int64_t before = allocations;
    const StepReport report = clipper.step(gradients, reduction, pool);
    const std::int64_t made = allocations - before;
    if (step > 0) {
      EXPECT_EQ(made, 0) << "in step " << step << ", which clipped " << report.layers_clipped;
    }
    if (step > 0 && report.layers_clipped > 0) ++clipped_steps;
  }
  EXPECT_GE(clipped_steps, 3);
  EXPECT_GT(reduction.numbers, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, AllocationTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace spectralclip

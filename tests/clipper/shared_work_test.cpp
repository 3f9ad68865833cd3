// SPDX-License-Identifier: Apache-2.0
// Layers are dealt out by cost, alike on all ranks; a share is read back as it was written, and refused when it is
// none.
#include "clipper/shared_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "clip/cost.h"
#include "clipper/toy_model.h"
#include "spectralclip/error.h"

namespace spectralclip::testing {
namespace {

LayerSet many_layers() {
  ToyModel model;
  for (int i = 0; i < 12; ++i) model.add("block" + std::to_string(i) + ".weight", {100 + 40 * (i % 5), 160});
  model.add("norm.bias", {64}, ScalarType::float32, 0);
  LayerSet set;
  append_layers(set, model.parameters(), {});
  return set;
}

TEST(SharedWork, IsBalancedByCost) {
  const LayerSet set = many_layers();
  for (const int ranks : {1, 2, 3, 5}) {
    const std::vector<int> owners = owners_of(set, ranks);
    ASSERT_EQ(owners.size(), set.layers.size());
    std::vector<double> loads(static_cast<std::size_t>(ranks), 0.0);
    double largest = 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      ASSERT_TRUE(owners[i] >= 0 && owners[i] < ranks);
      const double cost = std::min(2 * pass_cost(set.reports[i].rows, set.reports[i].cols, kTypicalColumns),
                                   gram_cost(set.reports[i].rows, set.reports[i].cols));
      loads[static_cast<std::size_t>(owners[i])] += cost;
      largest = std::max(largest, cost);
    }
    const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
    EXPECT_LE(*most - *least, largest) << ranks << " ranks";  // what dealing to the least loaded promises
  }
}

TEST(SharedWork, LayersThatAreSplitHaveNoOwner) {
  LayerSet set = many_layers();
  set.layers[3].part.split = Split::rows;
  set.layers[4].part.split = Split::matrices;
  const std::vector<int> owners = owners_of(set, 2);
  EXPECT_EQ(owners[3], -1);
  EXPECT_EQ(owners[4], -1);
  EXPECT_EQ(std::count(owners.begin(), owners.end(), -1), 2);
}

TEST(SharedWork, ASharesBytesAreReadBackOrRefused) {
  LayerSet set = many_layers();
  set.reports[2].clip.sigma_max = 3.5;
  set.layers[2].subspace = {160, 4, 2, 1, 3, std::vector<float>(320, 0.25F)};
  std::vector<std::uint8_t> bytes;
  write_shared(set, 2, ClipFactors({1, 2, 3}), bytes);
  write_shared(set, 5, {}, bytes);
  const std::vector<SharedLayer> read = read_shared(set, bytes);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].layer, 2U);
  EXPECT_EQ(read[0].report.sigma_max, 3.5);
  EXPECT_EQ(read[0].subspace.V, set.layers[2].subspace.V);
  EXPECT_EQ(read[0].subspace.clipped_lately, 3);
  EXPECT_EQ(read[0].factors.bytes().size(), 3U);
  EXPECT_TRUE(read[1].factors.empty() && read[1].subspace.V.empty());
  for (std::size_t size = 1; size < bytes.size(); size += 37) {
    const std::span<const std::uint8_t> part(bytes.data(), size);
    try {
      EXPECT_LT(read_shared(set, part).size(), 2U);  // the end of a layer is an end
    } catch (const InvalidArgument&) {
    }
  }
  LayerSet small;
  EXPECT_THROW((void)read_shared(small, bytes), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::testing

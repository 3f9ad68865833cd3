// SPDX-License-Identifier: Apache-2.0
// Notes of a load, and hints of a layer, as C sees them.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "c_api/one_matrix.h"

namespace {

using namespace sclip_testing;

void run_steps(sclip_clipper* clipper, int count) {
  for (int step = 0; step < count; ++step) {
    auto gradient = make_gradient(step);
    const sclip_gradient view = sclip_gradient_of(gradient.data(), SCLIP_FLOAT32);
    ASSERT_EQ(sclip_clipper_step(clipper, &view, 1, nullptr), SCLIP_OK);
  }
}

TEST(CApiLoad, SaysWhatAnotherThresholdCouldNotTakeOver) {
  Handle first;
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, nullptr, &first.clipper), SCLIP_OK);
  run_steps(first.clipper, 5);
  std::vector<uint8_t> bytes(static_cast<std::size_t>(sclip_clipper_serialized_size(first.clipper)));
  ASSERT_EQ(sclip_clipper_serialize(first.clipper, bytes.data(), static_cast<int64_t>(bytes.size())), SCLIP_OK);
  Options options;
  options.threshold.kind = SCLIP_THRESHOLD_QUANTILE;
  Handle second;
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, &options, &second.clipper), SCLIP_OK);
  EXPECT_STREQ(sclip_clipper_load_notes(second.clipper), "");
  ASSERT_EQ(sclip_clipper_deserialize(second.clipper, bytes.data(), static_cast<int64_t>(bytes.size())), SCLIP_OK);
  const std::string note = sclip_clipper_load_notes(second.clipper);
  EXPECT_NE(note.find("ema(0.9) -> quantile"), std::string::npos) << note;
  EXPECT_NE(note.find("fc.weight"), std::string::npos) << note;
  run_steps(second.clipper, 1);
  sclip_clip_report clip = clip_report();
  ASSERT_EQ(sclip_clipper_layer_report(second.clipper, 0, nullptr, &clip), SCLIP_OK);
  EXPECT_LT(clip.tau, 1e3) << "the average is the window's first value, not infinity";
  EXPECT_GT(clip.tau, 0);
  EXPECT_STREQ(sclip_clipper_load_notes(nullptr), "");
}

TEST(CApiLoad, AStackOfMatricesTakenAsOneIsHinted) {
  const int64_t matrices[3] = {4, 48, 64};
  const int64_t vectors[2] = {4, 64};
  const int64_t kernel[4] = {4, 3, 5, 5};
  const sclip_parameter parameters[] = {sclip_parameter_of("qkvw", matrices, 3), sclip_parameter_of("qkvb", vectors, 2),
                                        sclip_parameter_of("conv", kernel, 4), kParameter};
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(parameters, 4, nullptr, &handle.clipper), SCLIP_OK);
  sclip_layer_report layer = layer_report();
  const auto hint = [&](int64_t i) {
    EXPECT_EQ(sclip_clipper_layer_report(handle.clipper, i, &layer, nullptr), SCLIP_OK);
    return std::string(layer.hint);
  };
  EXPECT_NE(hint(0).find("batch_axes = 1"), std::string::npos) << hint(0);
  EXPECT_NE(hint(1).find("treatment norm"), std::string::npos) << hint(1);
  EXPECT_EQ(hint(2), "") << "a convolution";
  EXPECT_EQ(hint(3), "");
}

}  // namespace

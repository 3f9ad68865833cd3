// SPDX-License-Identifier: Apache-2.0
// What C can get wrong: every misuse is a status and a text, nothing is thrown, nothing is touched.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>

#include "c_api/one_matrix.h"
#include "constants.h"

namespace {

using namespace sclip_testing;
using spectralclip::kNaN;

TEST(CApi, RefusesMisuseOfAMatrix) {
  auto gradient = make_gradient(2);
  const auto before = gradient;
  const sclip_matrix G = matrix_of(gradient);
  const auto refused = [&](const sclip_matrix* matrix, double tau, const sclip_clip_options* options) {
    return sclip_clip_matrix(matrix, tau, options, nullptr) == SCLIP_INVALID_ARGUMENT &&
           std::string(sclip_last_error()).size() > 5;
  };
  EXPECT_TRUE(refused(nullptr, 1, nullptr));
  EXPECT_TRUE(refused(&G, -1, nullptr));
  EXPECT_TRUE(refused(&G, kNaN, nullptr));
  const auto with = [&](auto change) {
    sclip_matrix matrix = matrix_of(gradient);
    change(matrix);
    return matrix;
  };
  auto* const one_byte_off = reinterpret_cast<std::byte*>(gradient.data()) + 1;
  for (const sclip_matrix& bad :
       {with([](auto& m) { m.data = nullptr; }), with([](auto& m) { m.type = 4; }), with([](auto& m) { m.type = -1; }),
        with([](auto& m) { m.rows = -1; }), with([](auto& m) { m.rows = 0; }), with([](auto& m) { m.cols = 0; }),
        with([](auto& m) { m.row_stride = kCols - 1; }), with([&](auto& m) { m.data = one_byte_off; }),
        with([](auto& m) { m.struct_size = 0; }), with([](auto& m) { m.struct_size = 12; })}) {
    EXPECT_TRUE(refused(&bad, 1, nullptr));
    EXPECT_EQ(sclip_clip_norm(&bad, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  }
  sclip_clip_options options;
  sclip_clip_options_init(&options);
  options.method = 6;
  EXPECT_TRUE(refused(&G, 1, &options));
  EXPECT_NE(std::string(sclip_last_error()).find("method = 6"), std::string::npos) << sclip_last_error();
  sclip_clip_options_init(&options);
  options.rank = -3;
  EXPECT_TRUE(refused(&G, 1, &options));
  options.rank = kRows + 1;
  EXPECT_TRUE(refused(&G, 1, &options));
  options = {};
  EXPECT_TRUE(refused(&G, 1, &options)) << "never initialised";
  EXPECT_NE(std::string(sclip_last_error()).find("sclip_clip_options_init"), std::string::npos);
  sclip_clip_options_init(nullptr);
  EXPECT_EQ(gradient, before);
}

TEST(CApi, LastErrorBelongsToItsThread) {
  ASSERT_EQ(sclip_clip_matrix(nullptr, 1, nullptr, nullptr), SCLIP_INVALID_ARGUMENT);
  std::string other = "unset";
  std::thread([&] { other = sclip_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STRNE(sclip_last_error(), "");
}

TEST(CApi, RefusesMisuseOfAClipper) {
  auto* const untouched = reinterpret_cast<sclip_clipper*>(&errno);
  const auto refused = [&](const sclip_parameter* parameters, int64_t count, const sclip_clipper_options* options) {
    sclip_clipper* clipper = untouched;
    const sclip_status status = sclip_clipper_create(parameters, count, options, &clipper);
    return status == SCLIP_INVALID_ARGUMENT && clipper == nullptr && std::string(sclip_last_error()).size() > 5;
  };
  EXPECT_EQ(sclip_clipper_create(&kParameter, 1, nullptr, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_TRUE(refused(nullptr, 1, nullptr));
  EXPECT_TRUE(refused(&kParameter, -1, nullptr));
  for (const sclip_parameter& bad : {sclip_parameter_of(nullptr, kShape, 2), sclip_parameter_of("a", nullptr, 2),
                                     sclip_parameter_of("a", kShape, -1), sclip_parameter{}}) {
    EXPECT_TRUE(refused(&bad, 1, nullptr));
  }
  const auto refused_with = [&](auto change) {
    Options options;
    change(options);
    return refused(&kParameter, 1, &options);
  };
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.struct_size = 0; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.threshold.struct_size = 1; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.threshold.kind = 3; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.threshold.first_step = -1; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.threshold.decay = kNaN; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clip.exhausted = 3; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clip.exhausted = -1; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clip.margin = 0; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clip.margin = 0.2; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clip.margin = kNaN; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.on_nonfinite = 2; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.observe_only = 2; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.threads = -1; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.rule_count = 1; }));
  EXPECT_TRUE(refused_with([](auto& options) { options.clipper.skip_pattern_count = -1; }));
  EXPECT_TRUE(refused_with([](auto& options) {
    static const sclip_executor without =
        sclip_executor_of(nullptr, 0, [](void*, int64_t, void (*)(void*, int64_t), void*) {});
    options.clipper.executor = &without;
  }));
  EXPECT_TRUE(refused_with([](auto& options) {
    static const sclip_executor nothing = sclip_executor_of(nullptr, 1, nullptr);
    options.clipper.executor = &nothing;
  }));
}

TEST(CApi, RefusesMisuseOfAStep) {
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, nullptr, &handle.clipper), SCLIP_OK);
  auto gradient = make_gradient(0);
  sclip_gradient view = sclip_gradient_of(gradient.data(), SCLIP_FLOAT32);
  EXPECT_EQ(sclip_clipper_step(nullptr, &view, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_step(handle.clipper, nullptr, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_step(handle.clipper, &view, 2, nullptr), SCLIP_INVALID_ARGUMENT);
  sclip_step_report unsized;
  unsized.struct_size = 3;
  const auto before = gradient;
  EXPECT_EQ(sclip_clipper_step(handle.clipper, &view, 1, &unsized), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(gradient, before) << "refused before anything is written";
  EXPECT_EQ(sclip_clipper_steps(handle.clipper), 0);
  view.data = reinterpret_cast<std::byte*>(gradient.data()) + 2;
  EXPECT_EQ(sclip_clipper_step(handle.clipper, &view, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sclip_last_error()).find("multiple of the 4 bytes"), std::string::npos) << sclip_last_error();
  view.data = gradient.data();
  view.row_stride = kCols - 1;
  EXPECT_EQ(sclip_clipper_step(handle.clipper, &view, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sclip_last_error()).find("fc.weight"), std::string::npos);
  view = sclip_gradient_of(gradient.data(), 17);
  EXPECT_EQ(sclip_clipper_step(handle.clipper, &view, 1, nullptr), SCLIP_INVALID_ARGUMENT);
  sclip_layer_report layer = layer_report();
  EXPECT_EQ(sclip_clipper_layer_report(handle.clipper, 1, &layer, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_layer_report(handle.clipper, -1, &layer, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_layer_report(handle.clipper, 0, nullptr, nullptr), SCLIP_OK) << "nothing wanted";
  layer.struct_size = 3;
  EXPECT_EQ(sclip_clipper_layer_report(handle.clipper, 0, &layer, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_layer_report(nullptr, 0, &layer, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_save(handle.clipper, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_load(nullptr, "x"), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_deserialize(handle.clipper, nullptr, 5), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_deserialize(handle.clipper, &view, -5), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_layer_count(nullptr), 0);
  EXPECT_EQ(sclip_clipper_serialized_size(nullptr), 0);
  EXPECT_EQ(sclip_clipper_steps(nullptr), 0);
  sclip_clipper_destroy(nullptr);
}

}  // namespace

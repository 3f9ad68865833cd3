// SPDX-License-Identifier: Apache-2.0
// The C interface from the outside: the same results as C++, with our threads or the host's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "c_api/one_matrix.h"
#include "spectralclip/clip.h"
#include "spectralclip/clipper.h"
#include "spectralclip/error.h"
#include "spectralclip/version.h"

namespace {

using namespace sclip_testing;

TEST(CApi, ReportsItsVersion) {
  EXPECT_STREQ(sclip_version(), spectralclip::version());
  EXPECT_STREQ(sclip_version(), "0.1.0");
  EXPECT_STREQ(sclip_simd_target(), spectralclip::simd_target());
  EXPECT_STREQ(sclip_clip_status_name(SCLIP_CLIP_NOT_FINITE), "not_finite");
  EXPECT_STREQ(sclip_clip_status_name(SCLIP_CLIP_NOT_CONVERGED), "not_converged");
  EXPECT_STREQ(sclip_clip_status_name(SCLIP_CLIP_OUT_OF_RANGE), "out_of_range");
  EXPECT_STREQ(sclip_treatment_name(SCLIP_TREATMENT_SKIP), "skip");
  EXPECT_STREQ(sclip_method_name(SCLIP_METHOD_AUTO), "auto");
  for (const int32_t nothing : {-5, -1, 6, 7, 99, 255, 256, 261, std::numeric_limits<int32_t>::min()}) {
    EXPECT_STREQ(sclip_method_name(nothing), "unknown") << nothing;
    EXPECT_STREQ(sclip_treatment_name(nothing), "unknown") << nothing;
  }
  EXPECT_STREQ(sclip_clip_status_name(-5), "unknown");
  EXPECT_STREQ(sclip_clip_status_name(SCLIP_CLIP_OUT_OF_MEMORY), "out_of_memory");
  EXPECT_STREQ(sclip_clip_status_name(SCLIP_CLIP_OUT_OF_MEMORY + 1), "unknown");
  EXPECT_EQ(sclip_version_number(), SCLIP_VERSION);
  EXPECT_EQ(std::to_string(SCLIP_VERSION_MAJOR) + "." + std::to_string(SCLIP_VERSION_MINOR) + "." +
                std::to_string(SCLIP_VERSION_PATCH),
            sclip_version());
}

// The defaults of C are those of C++, and what is set in C arrives.
TEST(CApi, DefaultsAndChangedOptionsAreThoseOfCpp) {
  sclip_clip_options options;
  sclip_clip_options_init(&options);
  const spectralclip::ClipOptions defaults;
  EXPECT_EQ(options.method, SCLIP_METHOD_AUTO);
  EXPECT_EQ(options.exhausted, SCLIP_EXHAUSTED_AUTO);
  EXPECT_EQ(options.margin, defaults.margin);
  EXPECT_EQ(options.tolerance, defaults.tolerance);
  EXPECT_EQ(options.max_passes, defaults.max_passes);
  EXPECT_EQ(options.max_columns, defaults.max_columns);
  EXPECT_EQ(static_cast<int>(spectralclip::Exhausted::automatic), SCLIP_EXHAUSTED_AUTO);
  EXPECT_EQ(static_cast<int>(spectralclip::ClipStatus::out_of_range), SCLIP_CLIP_OUT_OF_RANGE);
  options.method = SCLIP_METHOD_TRACKED;
  options.rank = 3;  // the search itself: so small a matrix would go to gram
  const auto sure = [&](double margin) {
    auto gradient = make_gradient(2);
    const sclip_matrix G = matrix_of(gradient);
    options.margin = margin;
    sclip_clip_report report = clip_report();
    EXPECT_EQ(sclip_clip_matrix(&G, 2.0, &options, &report), SCLIP_OK) << sclip_last_error();
    spectralclip::ClipOptions same{.method = spectralclip::Method::tracked, .rank = 3};
    same.margin = margin;
    auto expected = make_gradient(2);
    const auto reference =
        spectralclip::clip_singular_values(spectralclip::MatrixView<float>(expected.data(), kRows, kCols), 2.0, same);
    EXPECT_EQ(gradient, expected);
    EXPECT_EQ(report.status, static_cast<int32_t>(reference.status));
    EXPECT_EQ(report.sigma_bound, reference.sigma_bound);
    EXPECT_EQ(report.method, SCLIP_METHOD_TRACKED);
  };
  sure(1e-3);
  sure(0.1);
}

TEST(CApi, ClipsAMatrixLikeCpp) {
  auto gradient = make_gradient(2);
  auto expected = gradient;
  const sclip_matrix G = matrix_of(gradient);
  sclip_clip_options options;
  sclip_clip_options_init(&options);
  options.method = SCLIP_METHOD_EXACT;
  sclip_clip_report report = clip_report();
  ASSERT_EQ(sclip_clip_matrix(&G, 2.0, &options, &report), SCLIP_OK) << sclip_last_error();
  spectralclip::ClipOptions exact;
  exact.method = spectralclip::Method::exact;
  const auto reference =
      spectralclip::clip_singular_values(spectralclip::MatrixView<float>(expected.data(), kRows, kCols), 2.0, exact);
  EXPECT_EQ(gradient, expected);
  EXPECT_EQ(report.sigma_max, reference.sigma_max);
  EXPECT_EQ(report.clipped, reference.clipped);
  EXPECT_GT(report.clipped, 0);
  EXPECT_EQ(report.tau, 2.0);
  ASSERT_EQ(sclip_clip_norm(&G, 1.0, &report), SCLIP_OK);
  EXPECT_EQ(report.norm_before,
            spectralclip::frobenius_norm(spectralclip::MatrixView<float>(expected.data(), kRows, kCols)));
  EXPECT_LT(gradient[0] * gradient[0], expected[0] * expected[0]);
  EXPECT_EQ(sclip_clip_matrix(&G, 2.0, nullptr, nullptr), SCLIP_OK);
}

TEST(CApi, AClipperGivesTheBitsOfTheCppClipper) {
  Handle handle;
  Options options;
  options.clipper.threads = 2;
  options.clip.rank = 3;  // a search, even of so small a matrix
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, &options, &handle.clipper), SCLIP_OK) << sclip_last_error();
  spectralclip::ClipperOptions same;
  same.clip.rank = 3;
  spectralclip::Clipper reference({{"fc.weight", {kRows, kCols}}}, same);
  for (int step = 0; step < 7; ++step) {
    auto gradient = make_gradient(step);
    auto expected = gradient;
    const sclip_gradient view = sclip_gradient_of(gradient.data(), SCLIP_FLOAT32);
    sclip_step_report report = step_report();
    ASSERT_EQ(sclip_clipper_step(handle.clipper, &view, 1, &report), SCLIP_OK) << sclip_last_error();
    const spectralclip::Gradient other{expected.data(), spectralclip::ScalarType::float32, 0};
    const auto reference_report = reference.step({&other, 1}, spectralclip::serial_executor());
    EXPECT_EQ(gradient, expected);
    EXPECT_EQ(report.step, step + 1);
    EXPECT_EQ(report.norm_after, reference_report.norm_after);
    EXPECT_EQ(report.layers_clipped, reference_report.layers_clipped);
    EXPECT_EQ(report.layers_rank_exhausted, reference_report.layers_rank_exhausted);
    EXPECT_EQ(report.layers_not_converged, reference_report.layers_not_converged);
    EXPECT_EQ(report.layers_out_of_range, reference_report.layers_out_of_range);
  }
  sclip_layer_report layer = layer_report();
  sclip_clip_report clip = clip_report();
  ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, 0, &layer, &clip), SCLIP_OK);
  EXPECT_STREQ(layer.name, "fc.weight");
  EXPECT_EQ(layer.rows, kRows);
  EXPECT_EQ(layer.steps, 7);
  EXPECT_EQ(layer.steps_clipped, reference.layers()[0].steps_clipped);
  EXPECT_GT(layer.steps_clipped, 0);
  EXPECT_EQ(clip.tau, reference.layers()[0].clip.tau);
  EXPECT_EQ(sclip_clipper_steps(handle.clipper), 7);
  EXPECT_EQ(sclip_clipper_layer_count(handle.clipper), 1);
  EXPECT_GT(sclip_clipper_workspace_bytes(handle.clipper), 0);
}

TEST(CApi, AStepCountsWhatIsOutOfRangeAndWhatMayRemain) {
  const sclip_parameter parameters[] = {kParameter, sclip_parameter_of("huge.bias", &kShape[1], 1),
                                        sclip_parameter_of("broken.weight", kShape, 2)};
  Options options;
  options.threshold.kind = SCLIP_THRESHOLD_CONSTANT;
  options.threshold.tau = 0.5;
  options.clip.method = SCLIP_METHOD_TRACKED;
  options.clip.rank = 2;
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(parameters, 3, &options, &handle.clipper), SCLIP_OK) << sclip_last_error();
  auto gradient = make_gradient(0);
  std::vector<double> huge(static_cast<std::size_t>(kCols), 1e308);
  auto broken = make_gradient(1);
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  const sclip_gradient gradients[3] = {sclip_gradient_of(gradient.data(), SCLIP_FLOAT32),
                                       sclip_gradient_of(huge.data(), SCLIP_FLOAT64),
                                       sclip_gradient_of(broken.data(), SCLIP_FLOAT32)};
  sclip_step_report report = step_report();
  ASSERT_EQ(sclip_clipper_step(handle.clipper, gradients, 3, &report), SCLIP_OK) << sclip_last_error();
  EXPECT_EQ(report.layers_rank_exhausted, 1);
  EXPECT_EQ(report.layers_not_converged, 0);
  EXPECT_EQ(report.layers_out_of_range, 1);
  EXPECT_EQ(report.layers_not_finite, 1);
  EXPECT_EQ(huge[0], 1e308);
  sclip_layer_report layer = layer_report();
  sclip_clip_report clip = clip_report();
  ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, 1, &layer, &clip), SCLIP_OK);
  EXPECT_EQ(clip.status, SCLIP_CLIP_OUT_OF_RANGE);
  EXPECT_EQ(layer.steps, 0);
}

TEST(CApi, RulesAndSkipPatternsApply) {
  const int64_t batch[3] = {2, 4, 5};
  const sclip_parameter parameters[] = {kParameter, sclip_parameter_of("head.weight", kShape, 2),
                                        sclip_parameter_of("experts", batch, 3),
                                        sclip_parameter_of("scale", nullptr, 0)};
  const char* const skip[] = {"head.*"};
  sclip_threshold_options threshold;
  sclip_threshold_options_init(&threshold);
  threshold.kind = SCLIP_THRESHOLD_CONSTANT;
  threshold.tau = 0.25;
  sclip_rule rules[2];
  sclip_rule_init(&rules[0]);
  sclip_rule_init(&rules[1]);
  rules[0].name_pattern = "experts";
  rules[0].batch_axes = 1;
  rules[0].threshold = &threshold;
  rules[0].label = "by expert";
  rules[1].name_pattern = "fc.*";
  rules[1].treatment = SCLIP_TREATMENT_NORM;
  Options options;
  options.clipper.skip_patterns = skip;
  options.clipper.skip_pattern_count = 1;
  options.clipper.rules = rules;
  options.clipper.rule_count = 2;
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(parameters, 4, &options, &handle.clipper), SCLIP_OK) << sclip_last_error();
  ASSERT_EQ(sclip_clipper_layer_count(handle.clipper), 5);
  auto gradient = make_gradient(0);
  const sclip_gradient none = sclip_gradient_of(nullptr, SCLIP_FLOAT32);
  const sclip_gradient gradients[4] = {none, none, sclip_gradient_of(gradient.data(), SCLIP_FLOAT32), none};
  ASSERT_EQ(sclip_clipper_step(handle.clipper, gradients, 4, nullptr), SCLIP_OK) << sclip_last_error();
  const int32_t treatments[] = {SCLIP_TREATMENT_NORM, SCLIP_TREATMENT_SKIP, SCLIP_TREATMENT_SPECTRAL,
                                SCLIP_TREATMENT_SPECTRAL, SCLIP_TREATMENT_NORM};
  sclip_layer_report layer = layer_report();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, i, &layer, nullptr), SCLIP_OK);
    EXPECT_EQ(layer.treatment, treatments[i]) << layer.name;
    EXPECT_EQ(layer.has_gradient, i == 2 || i == 3);
  }
  sclip_clip_report clip = clip_report();
  ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, 3, &layer, &clip), SCLIP_OK);
  EXPECT_STREQ(layer.name, "experts[1]");
  EXPECT_STREQ(layer.rule, "by expert");
  EXPECT_EQ(clip.tau, 0.25);
  EXPECT_GT(clip.clipped, 0);
}

TEST(CApi, StateRoundTripsThroughBytesAndFiles) {
  Handle first;
  Handle second;
  Options options;
  options.clip.rank = 3;  // a search, so that there are vectors to keep
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, &options, &first.clipper), SCLIP_OK);
  ASSERT_EQ(sclip_clipper_create(&kParameter, 1, &options, &second.clipper), SCLIP_OK);
  for (int step = 0; step < 3; ++step) {
    auto gradient = make_gradient(step);
    const sclip_gradient view = sclip_gradient_of(gradient.data(), SCLIP_FLOAT32);
    ASSERT_EQ(sclip_clipper_step(first.clipper, &view, 1, nullptr), SCLIP_OK);
  }
  const int64_t size = sclip_clipper_serialized_size(first.clipper);
  ASSERT_GT(size, 3 * kCols * int64_t{sizeof(float)}) << "three vectors at least";
  std::vector<uint8_t> bytes(static_cast<std::size_t>(size));
  EXPECT_EQ(sclip_clipper_serialize(first.clipper, bytes.data(), size - 1), SCLIP_INVALID_ARGUMENT);
  EXPECT_EQ(sclip_clipper_serialize(first.clipper, nullptr, size), SCLIP_INVALID_ARGUMENT);
  ASSERT_EQ(sclip_clipper_serialize(first.clipper, bytes.data(), size), SCLIP_OK);
  EXPECT_EQ(sclip_clipper_deserialize(second.clipper, bytes.data(), size - 1), SCLIP_STATE_FILE_ERROR);
  EXPECT_EQ(sclip_clipper_steps(second.clipper), 0);
  ASSERT_EQ(sclip_clipper_deserialize(second.clipper, bytes.data(), size), SCLIP_OK) << sclip_last_error();
  EXPECT_EQ(sclip_clipper_steps(second.clipper), 3);
  const auto path = (std::filesystem::temp_directory_path() / ("sclip_c_api_" + std::to_string(::getpid()))).string();
  ASSERT_EQ(sclip_clipper_save(first.clipper, path.c_str()), SCLIP_OK) << sclip_last_error();
  ASSERT_EQ(sclip_clipper_load(second.clipper, path.c_str()), SCLIP_OK) << sclip_last_error();
  std::remove(path.c_str());
  EXPECT_EQ(sclip_clipper_load(second.clipper, path.c_str()), SCLIP_STATE_FILE_ERROR);
  EXPECT_NE(std::string(sclip_last_error()).find(path), std::string::npos);
  std::vector<uint8_t> again(static_cast<std::size_t>(sclip_clipper_serialized_size(second.clipper)));
  ASSERT_EQ(sclip_clipper_serialize(second.clipper, again.data(), static_cast<int64_t>(again.size())), SCLIP_OK);
  EXPECT_EQ(again, bytes);
}

struct Host {
  std::atomic<int64_t> tasks{0};
  int64_t drop = 0;
};

// One thread per task: nothing of ours is assumed about the host's threads.
void run_on_host(void* context, int64_t count, void (*task)(void*, int64_t), void* task_context) {
  auto& host = *static_cast<Host*>(context);
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count - host.drop; ++i) {
    ++host.tasks;
    threads.emplace_back(task, task_context, i);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CApi, AHostsExecutorDoesTheWork) {
  Host host;
  Options options;
  const sclip_executor executor = sclip_executor_of(&host, 2, run_on_host);
  options.clipper.executor = &executor;
  const int64_t small[2] = {3, 4};
  std::vector<sclip_parameter> parameters(20, sclip_parameter_of("", small, 2));
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("layer" + std::to_string(i));
  for (std::size_t i = 0; i < 20; ++i) parameters[i].name = names[i].c_str();
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(parameters.data(), 20, &options, &handle.clipper), SCLIP_OK) << sclip_last_error();
  auto gradient = make_gradient(0);
  std::vector<sclip_gradient> gradients;
  std::vector<std::vector<float>> storage(20, std::vector<float>(gradient.begin(), gradient.begin() + 12));
  for (auto& entries : storage) gradients.push_back(sclip_gradient_of(entries.data(), SCLIP_FLOAT32));
  sclip_step_report report = step_report();
  ASSERT_EQ(sclip_clipper_step(handle.clipper, gradients.data(), 20, &report), SCLIP_OK) << sclip_last_error();
  EXPECT_GE(host.tasks, 20);
  host.drop = 1;
  EXPECT_EQ(sclip_clipper_step(handle.clipper, gradients.data(), 20, &report), SCLIP_INTERNAL_ERROR);
  EXPECT_NE(std::string(sclip_last_error()).find("19 of 20"), std::string::npos) << sclip_last_error();
}

}  // namespace

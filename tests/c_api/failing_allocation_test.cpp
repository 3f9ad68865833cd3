// SPDX-License-Identifier: Apache-2.0
// Memory runs out, at every allocation there is, once and for good: what fails leaves gradients and state as they were;
// a step fails as a whole before anything is written, or not at all, and then a layer without memory is left as it was
// and says so.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "c_api/one_matrix.h"
#include "spectralclip/clip.h"
#include "support/counted_allocations.h"

namespace {

using namespace sclip_testing;
using spectralclip::testing::FailingAllocations;

// Under a sanitizer operator new alone is made to fail; Eigen calls malloc.
#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
constexpr bool kSeesMalloc = true;
#else
constexpr bool kSeesMalloc = false;
#endif
constexpr std::int64_t kForGood = std::int64_t{1} << 40;

struct Shape {
  const char* name;
  std::int64_t axes[2];
  std::int32_t type;
};
// Clipped by the search (free and fixed rank), `gram` in slabs and in one, `exact`, products, by norm; skipped.
// (`exact` of no more than 16 values: Eigen's divide and conquer destroys a solver twice when it runs out of memory.)
constexpr Shape kShapes[] = {{"tracked", {180, 90}, SCLIP_FLOAT32},    {"fixed", {60, 300}, SCLIP_FLOAT64},
                             {"gram_slabs", {600, 12}, SCLIP_FLOAT32}, {"gram_wide", {9, 400}, SCLIP_BFLOAT16},
                             {"exact", {30, 12}, SCLIP_FLOAT32},       {"newton", {300, 14}, SCLIP_FLOAT32},
                             {"bias", {1, 40}, SCLIP_FLOAT32},         {"wte", {20, 30}, SCLIP_FLOAT32}};
constexpr std::size_t kLayers = std::size(kShapes);

class Model {
 public:
  // A copy of what was computed once.
  static Model at(int step) {
    static const std::vector<Model> models = {Model(0), Model(1), Model(2)};
    return models.at(static_cast<std::size_t>(step));
  }
  // Without the layers in `absent`.
  [[nodiscard]] std::vector<sclip_gradient> gradients(const std::vector<bool>& absent = {}) {
    std::vector<sclip_gradient> all;
    for (std::size_t l = 0; l < kLayers; ++l)
      all.push_back(sclip_gradient_of(!absent.empty() && absent[l] ? nullptr : bytes_[l].data(), kShapes[l].type));
    return all;
  }
  [[nodiscard]] const std::vector<std::uint8_t>& operator[](std::size_t layer) const { return bytes_[layer]; }
  friend bool operator==(const Model&, const Model&) = default;

 private:
  explicit Model(int step) {
    for (std::size_t l = 0; l < kLayers; ++l) {
      const Shape& shape = kShapes[l];
      const std::int64_t count = shape.axes[0] * shape.axes[1];
      std::vector<double> values(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) {
        const auto row = static_cast<double>(i / shape.axes[1]), col = static_cast<double>(i % shape.axes[1]);
        values[static_cast<std::size_t>(i)] =
            0.3 * std::sin(row + step) * std::cos(col) + 0.05 * std::sin(1.3 * static_cast<double>(i * i % 977) + step);
      }
      bytes_.emplace_back(static_cast<std::size_t>(count * (shape.type == SCLIP_FLOAT64   ? 8
                                                            : shape.type == SCLIP_FLOAT32 ? 4
                                                                                          : 2)));
      for (std::size_t i = 0; i < values.size(); ++i) store(l, i, values[i]);
    }
  }
  void store(std::size_t layer, std::size_t i, double value) {
    const auto single = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    if (kShapes[layer].type == SCLIP_FLOAT64) std::memcpy(bytes_[layer].data() + i * 8, &value, 8);
    if (kShapes[layer].type == SCLIP_FLOAT32) std::memcpy(bytes_[layer].data() + i * 4, &single, 4);
    if (kShapes[layer].type == SCLIP_BFLOAT16) std::memcpy(bytes_[layer].data() + i * 2, &half, 2);
  }
  std::vector<std::vector<std::uint8_t>> bytes_;
};

// What sclip_clipper_create is given.
class Arguments {
 public:
  explicit Arguments(std::int32_t threads) {
    for (const Shape& shape : kShapes)
      parameters_.push_back(shape.axes[0] == 1 ? sclip_parameter_of(shape.name, shape.axes + 1, 1)
                                               : sclip_parameter_of(shape.name, shape.axes, 2));
    options_.threshold.slack = 0.2;
    options_.clipper.threads = threads;
    for (std::size_t i = 0; i < kMethods; ++i) {
      methods_[i] = options_.clip;
      methods_[i].method = kNumbers[i];
      rules_[i] = initialised(sclip_rule_init);
      rules_[i].name_pattern = kNames[i];
      rules_[i].clip = &methods_[i];
    }
    methods_[0].exhausted = SCLIP_EXHAUSTED_GO_EXACT;
    methods_[1].rank = 3;
    options_.clipper.rules = rules_;
    options_.clipper.rule_count = kMethods;
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  sclip_status create(sclip_clipper** made) {
    return sclip_clipper_create(parameters_.data(), static_cast<std::int64_t>(kLayers), &options_, made);
  }

 private:
  static constexpr std::size_t kMethods = 5;
  static constexpr std::int32_t kNumbers[kMethods] = {SCLIP_METHOD_TRACKED, SCLIP_METHOD_TRACKED, SCLIP_METHOD_GRAM,
                                                      SCLIP_METHOD_EXACT, SCLIP_METHOD_NEWTON_SCHULZ};
  static constexpr const char* kNames[kMethods] = {"tracked", "fixed", "gram*", "exact", "newton"};
  std::vector<sclip_parameter> parameters_;
  Options options_;
  sclip_clip_options methods_[kMethods];
  sclip_rule rules_[kMethods];
};

std::vector<std::uint8_t> state_of(const sclip_clipper* clipper) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(sclip_clipper_serialized_size(clipper)));
  EXPECT_EQ(sclip_clipper_serialize(clipper, bytes.data(), static_cast<std::int64_t>(bytes.size())), SCLIP_OK);
  return bytes;
}

// A clipper that made `steps` steps.
void prepare(Handle& handle, int steps, std::int32_t threads) {
  ASSERT_EQ(Arguments(threads).create(&handle.clipper), SCLIP_OK) << sclip_last_error();
  for (int step = 0; step < steps; ++step) {
    Model model = Model::at(step);
    const auto gradients = model.gradients();
    ASSERT_EQ(sclip_clipper_step(handle.clipper, gradients.data(), kLayers, nullptr), SCLIP_OK);
  }
}

// What a step that lacked memory for some layers has to equal: one in which those had no gradient.
void expect_others_clipped(const sclip_clipper* clipper, const Model& model, int step, std::int32_t threads,
                           const std::vector<bool>& without) {
  Handle other;
  prepare(other, step, threads);
  Model expected = Model::at(step);
  const auto gradients = expected.gradients(without);
  ASSERT_EQ(sclip_clipper_step(other.clipper, gradients.data(), kLayers, nullptr), SCLIP_OK);
  for (std::size_t l = 0; l < kLayers; ++l) EXPECT_EQ(model[l], expected[l]) << kShapes[l].name;
  EXPECT_EQ(state_of(clipper), state_of(other.clipper));
}

// Layers that say out_of_memory; their number is the report's.
std::vector<bool> without_memory(const sclip_clipper* clipper, const sclip_step_report& report) {
  std::vector<bool> without(kLayers);
  std::int64_t count = 0;
  for (std::size_t l = 0; l < kLayers; ++l) {
    sclip_clip_report clip = clip_report();
    EXPECT_EQ(sclip_clipper_layer_report(clipper, static_cast<std::int64_t>(l), nullptr, &clip), SCLIP_OK);
    without[l] = clip.status == SCLIP_CLIP_OUT_OF_MEMORY;
    count += without[l];
  }
  EXPECT_EQ(report.layers_out_of_memory, count);
  return without;
}

// One step with the allocation after `after` others failing; false when there was none to fail.
bool step_without_memory(int step, std::int32_t threads, std::int64_t after, std::int64_t count) {
  Handle handle;
  prepare(handle, step, threads);
  Model model = Model::at(step);
  const Model before = model;
  const auto state = state_of(handle.clipper);
  const auto gradients = model.gradients();
  sclip_step_report report = step_report();
  sclip_status status = SCLIP_OK;
  {
    const FailingAllocations failing(after, count);
    status = sclip_clipper_step(handle.clipper, gradients.data(), kLayers, &report);
  }
  if (spectralclip::testing::failed == 0) return false;
  if (status != SCLIP_OK) {
    EXPECT_EQ(status, SCLIP_OUT_OF_MEMORY) << sclip_last_error();
    EXPECT_TRUE(model == before) << "after " << after << ", step " << step;
    EXPECT_EQ(state_of(handle.clipper), state);
  } else {
    expect_others_clipped(handle.clipper, model, step, threads, without_memory(handle.clipper, report));
  }
  return true;
}

class FailingStep : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(FailingStep, FailsWholeOrLeavesALayerAsItWas) {
  for (const int step : {0, 2}) {
    for (const std::int64_t count : {std::int64_t{1}, kForGood}) {
      if (count == kForGood && GetParam() > 1) continue;
      std::int64_t after = 0;
      while (step_without_memory(step, GetParam(), after, count) && !HasFailure()) after += count == 1 ? 1 : 5;
      if (kSeesMalloc) {
        EXPECT_GT(after, step == 0 ? 10 : 5) << "nothing was allocated, so nothing was tested";
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Threads, FailingStep, ::testing::Values(1, 2));

// Calls `action` with every allocation failing in turn, until one call meets none.
void with_each_failing(const std::function<void(std::int64_t)>& action) {
  std::int64_t after = 0;
  do {
    action(after++);
  } while (spectralclip::testing::failed > 0 && !testing::Test::HasFailure());
  if (kSeesMalloc) {
    EXPECT_GT(after, 2);
  }
}

TEST(FailingAllocation, AClipperIsThereOrNot) {
  with_each_failing([](std::int64_t after) {
    Handle handle;
    Arguments arguments(1);
    sclip_status status = SCLIP_OK;
    {
      const FailingAllocations failing(after);
      status = arguments.create(&handle.clipper);
    }
    EXPECT_EQ(status == SCLIP_OK, handle.clipper != nullptr);
    if (status != SCLIP_OK) {
      EXPECT_EQ(status, SCLIP_OUT_OF_MEMORY) << sclip_last_error();
    }
  });
}

TEST(FailingAllocation, AStateIsLoadedOrNot) {
  Handle source;
  prepare(source, 3, 1);
  const auto wanted = state_of(source.clipper);
  with_each_failing([&](std::int64_t after) {
    Handle handle;
    prepare(handle, 1, 1);
    const auto before = state_of(handle.clipper);
    sclip_status status = SCLIP_OK;
    {
      const FailingAllocations failing(after);
      status = sclip_clipper_deserialize(handle.clipper, wanted.data(), static_cast<std::int64_t>(wanted.size()));
    }
    EXPECT_EQ(state_of(handle.clipper), status == SCLIP_OK ? wanted : before);
  });
}

TEST(FailingAllocation, AMatrixIsClippedOrLeft) {
  for (const std::int32_t method : {SCLIP_METHOD_EXACT, SCLIP_METHOD_GRAM, SCLIP_METHOD_SKETCHED, SCLIP_METHOD_TRACKED,
                                    SCLIP_METHOD_NEWTON_SCHULZ, SCLIP_METHOD_AUTO}) {
    for (const double tau : {0.0, 0.5}) {
      sclip_clip_options options = initialised(sclip_clip_options_init);
      options.method = method;
      Model clean = Model::at(0);
      sclip_matrix G = sclip_matrix_of(clean.gradients()[2].data, SCLIP_FLOAT32, 600, 12);
      ASSERT_EQ(sclip_clip_matrix(&G, tau, &options, nullptr), SCLIP_OK) << sclip_last_error();
      with_each_failing([&](std::int64_t after) {
        Model model = Model::at(0);
        const Model before = model;
        G.data = model.gradients()[2].data;
        sclip_status status = SCLIP_OK;
        {
          const FailingAllocations failing(after);
          status = sclip_clip_matrix(&G, tau, &options, nullptr);
        }
        EXPECT_TRUE(model == (status == SCLIP_OK ? clean : before)) << "method " << method << ", after " << after;
      });
    }
  }
}

TEST(FailingAllocation, SoftenedOrLeft) {
  Model clean = Model::at(0);
  const auto soften = [](Model& model) {
    auto* const data = static_cast<float*>(model.gradients()[2].data);
    (void)spectralclip::soften_singular_values(spectralclip::MatrixView<float>(data, 600, 12), 0.5);
  };
  soften(clean);
  with_each_failing([&](std::int64_t after) {
    Model model = Model::at(0);
    const Model before = model;
    bool thrown = false;
    try {
      const FailingAllocations failing(after);
      soften(model);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    EXPECT_TRUE(model == (thrown ? before : clean)) << "after " << after;
  });
}

TEST(FailingAllocation, AFileIsWrittenOrTheOldOneStays) {
  Handle handle;
  prepare(handle, 2, 1);
  const auto path = (std::filesystem::temp_directory_path() / ("sclip_failing_" + std::to_string(::getpid()))).string();
  ASSERT_EQ(sclip_clipper_save(handle.clipper, path.c_str()), SCLIP_OK);
  with_each_failing([&](std::int64_t after) {
    {
      const FailingAllocations failing(after);
      (void)sclip_clipper_save(handle.clipper, path.c_str());
    }
    Handle loaded;
    prepare(loaded, 0, 1);
    EXPECT_EQ(sclip_clipper_load(loaded.clipper, path.c_str()), SCLIP_OK) << sclip_last_error();
  });
  std::filesystem::remove(path);
}

}  // namespace

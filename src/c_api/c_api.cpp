// SPDX-License-Identifier: Apache-2.0
// The C functions: convert, forward, and turn every exception into a status and a text.
#include "spectralclip/c_api.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "c_api/convert.h"
#include "c_api/host_executor.h"
#include "c_api/host_reduction.h"
#include "require.h"
#include "spectralclip/clip.h"
#include "spectralclip/version.h"

namespace c_api = spectralclip::c_api;

struct sclip_clipper {
  spectralclip::Clipper clipper;
  std::unique_ptr<spectralclip::Executor> executor;
  std::vector<spectralclip::Gradient> gradients;  // kept, so that a step allocates nothing
  spectralclip::Reduction* reduction = nullptr;   // of the step under way, where parameters are split
};

namespace {

thread_local std::string last_error;

sclip_status failed(sclip_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();  // no memory even for the text: the status has to do
  }
  return status;
}

// Runs `action` and returns its outcome as a status.
template <class Action>
sclip_status guarded(const Action& action) noexcept {
  try {
    action();
    return SCLIP_OK;
  } catch (const spectralclip::InvalidArgument& error) {
    return failed(SCLIP_INVALID_ARGUMENT, error.what());
  } catch (const spectralclip::StateFileError& error) {
    return failed(SCLIP_STATE_FILE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return failed(SCLIP_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(SCLIP_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(SCLIP_INTERNAL_ERROR, "an exception of unknown type");
  }
}

template <class T>
T& required(T* pointer, const char* name) {
  SPECTRALCLIP_REQUIRE(pointer != nullptr, name, " is NULL");
  return *pointer;
}

sclip_clipper_options default_clipper_options() noexcept {
  sclip_clipper_options options{};
  options.struct_size = sizeof options;
  options.threshold = c_api::to_c(spectralclip::ThresholdOptions{});
  options.clip = c_api::to_c(spectralclip::ClipOptions{});
  options.on_nonfinite = SCLIP_NONFINITE_LEAVE_LAYER;
  return options;
}

std::unique_ptr<spectralclip::Executor> make_executor(const sclip_clipper_options& options) {
  if (options.executor.run != nullptr) return std::make_unique<c_api::HostExecutor>(options.executor);
  return std::make_unique<spectralclip::ThreadPool>(options.threads);
}

}  // namespace

extern "C" {

const char* sclip_version(void) { return spectralclip::version(); }
const char* sclip_simd_target(void) { return spectralclip::simd_target(); }
const char* sclip_clip_status_name(int32_t clip_status) {
  return to_string(static_cast<spectralclip::ClipStatus>(std::clamp(clip_status, 0, 255)));
}
const char* sclip_method_name(int32_t method) {
  return to_string(static_cast<spectralclip::Method>(std::clamp(method, 0, 255)));
}
const char* sclip_treatment_name(int32_t treatment) {
  return to_string(static_cast<spectralclip::Treatment>(std::clamp(treatment, 0, 255)));
}

const char* sclip_last_error(void) { return last_error.c_str(); }

void sclip_clip_options_init(sclip_clip_options* options) {
  if (options != nullptr) *options = c_api::to_c(spectralclip::ClipOptions{});
}

void sclip_threshold_options_init(sclip_threshold_options* options) {
  if (options != nullptr) *options = c_api::to_c(spectralclip::ThresholdOptions{});
}

void sclip_rule_init(sclip_rule* rule) {
  if (rule == nullptr) return;
  *rule = {};
  rule->struct_size = sizeof *rule;
  rule->name_pattern = "*";
  rule->max_dims = spectralclip::Rule{}.max_dims;
  rule->row_axes = spectralclip::Rule{}.row_axes;
}

void sclip_clipper_options_init(sclip_clipper_options* options) {
  if (options != nullptr) *options = default_clipper_options();
}

sclip_status sclip_clip_matrix(const sclip_matrix* G, double tau, const sclip_clip_options* options,
                               sclip_clip_report* report) {
  return guarded([&] {
    const auto clip = options == nullptr ? spectralclip::ClipOptions{} : c_api::clip_options_from(*options);
    const auto result = spectralclip::clip_singular_values(c_api::matrix_from(G), tau, clip);
    if (report != nullptr) *report = c_api::to_c(result);
  });
}

sclip_status sclip_clip_norm(const sclip_matrix* G, double max_norm, sclip_clip_report* report) {
  return guarded([&] {
    const auto result = spectralclip::clip_norm(c_api::matrix_from(G), max_norm);
    if (report != nullptr) *report = c_api::to_c(result);
  });
}

sclip_status sclip_clipper_create(const sclip_parameter* parameters, int64_t parameter_count,
                                  const sclip_clipper_options* options, sclip_clipper** clipper) {
  return guarded([&] {
    required(clipper, "clipper") = nullptr;
    const sclip_clipper_options chosen = options == nullptr ? default_clipper_options() : *options;
    spectralclip::Clipper made(c_api::parameters_from(parameters, parameter_count),
                               c_api::clipper_options_from(chosen));
    const auto count = static_cast<std::size_t>(parameter_count);
    *clipper = new sclip_clipper{std::move(made), make_executor(chosen), std::vector<spectralclip::Gradient>(count)};
  });
}

void sclip_clipper_destroy(sclip_clipper* clipper) { delete clipper; }

sclip_status sclip_clipper_step(sclip_clipper* clipper, const sclip_gradient* gradients, int64_t gradient_count,
                                sclip_step_report* report) {
  return guarded([&] {
    sclip_clipper& self = required(clipper, "clipper");
    const auto expected = static_cast<int64_t>(self.gradients.size());
    SPECTRALCLIP_REQUIRE(gradient_count == expected, gradient_count, " gradients were given for ", expected,
                         " parameters");
    SPECTRALCLIP_REQUIRE(gradients != nullptr || expected == 0, "gradients is NULL");
    std::transform(gradients, gradients + expected, self.gradients.begin(), [](const sclip_gradient& gradient) {
      return spectralclip::Gradient{gradient.data, c_api::scalar_type_from(gradient.type), gradient.row_stride};
    });
    const auto result = self.reduction == nullptr ? self.clipper.step(self.gradients, *self.executor)
                                                  : self.clipper.step(self.gradients, *self.reduction, *self.executor);
    if (report != nullptr) *report = c_api::to_c(result);
  });
}

int64_t sclip_clipper_layer_count(const sclip_clipper* clipper) {
  return clipper == nullptr ? 0 : static_cast<int64_t>(clipper->clipper.layers().size());
}

int64_t sclip_clipper_steps(const sclip_clipper* clipper) { return clipper == nullptr ? 0 : clipper->clipper.steps(); }

int64_t sclip_clipper_workspace_bytes(const sclip_clipper* clipper) {
  return clipper == nullptr ? 0 : clipper->clipper.workspace_bytes();
}

sclip_status sclip_clipper_layer_report(const sclip_clipper* clipper, int64_t layer, sclip_layer_report* report) {
  return guarded([&] {
    const auto layers = required(clipper, "clipper").clipper.layers();
    SPECTRALCLIP_REQUIRE(layer >= 0 && std::cmp_less(layer, layers.size()), "layer ", layer, " of ", layers.size());
    required(report, "report") = c_api::to_c(layers[static_cast<std::size_t>(layer)]);
  });
}

sclip_status sclip_clipper_save(const sclip_clipper* clipper, const char* path) {
  return guarded([&] { required(clipper, "clipper").clipper.save(&required(path, "path")); });
}

sclip_status sclip_clipper_load(sclip_clipper* clipper, const char* path) {
  return guarded([&] { required(clipper, "clipper").clipper.load(&required(path, "path")); });
}

int64_t sclip_clipper_serialized_size(const sclip_clipper* clipper) {
  return clipper == nullptr ? 0 : clipper->clipper.state_bytes();
}

sclip_status sclip_clipper_serialize(const sclip_clipper* clipper, void* buffer, int64_t capacity) {
  return guarded([&] {
    const auto bytes = required(clipper, "clipper").clipper.serialize();
    SPECTRALCLIP_REQUIRE(buffer != nullptr, "buffer is NULL");
    SPECTRALCLIP_REQUIRE(std::cmp_greater_equal(capacity, bytes.size()), "a buffer of ", capacity, " bytes for ",
                         bytes.size());
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(buffer));
  });
}

sclip_status sclip_clipper_deserialize(sclip_clipper* clipper, const void* bytes, int64_t size) {
  return guarded([&] {
    sclip_clipper& self = required(clipper, "clipper");
    SPECTRALCLIP_REQUIRE(size >= 0 && (bytes != nullptr || size == 0), "bytes is NULL or their number, ", size,
                         ", is negative");
    self.clipper.deserialize({static_cast<const uint8_t*>(bytes), static_cast<std::size_t>(size)});
  });
}


sclip_status sclip_clipper_create_split(const sclip_parameter* parameters, const sclip_shard* shards,
                                        int64_t parameter_count, const sclip_clipper_options* options,
                                        sclip_clipper** clipper) {
  return guarded([&] {
    required(clipper, "clipper") = nullptr;
    SPECTRALCLIP_REQUIRE(shards != nullptr || parameter_count == 0, "shards is NULL");
    const sclip_clipper_options chosen = options == nullptr ? default_clipper_options() : *options;
    std::vector<spectralclip::Parameter> list = c_api::parameters_from(parameters, parameter_count);
    for (std::size_t i = 0; i < list.size(); ++i)
      list[i].shard = {.axis = shards[i].axis, .extent = shards[i].extent, .first = shards[i].first};
    spectralclip::Clipper made(std::move(list), c_api::clipper_options_from(chosen));
    const auto count = static_cast<std::size_t>(parameter_count);
    *clipper = new sclip_clipper{std::move(made), make_executor(chosen), std::vector<spectralclip::Gradient>(count)};
  });
}

sclip_status sclip_clipper_step_split(sclip_clipper* clipper, const sclip_gradient* gradients, int64_t gradient_count,
                                      const sclip_reduction* reduction, sclip_step_report* report) {
  if (clipper == nullptr || reduction == nullptr || reduction->sum == nullptr)
    return guarded([] { throw spectralclip::InvalidArgument("clipper, reduction or reduction->sum is NULL"); });
  c_api::HostReduction host(*reduction);
  clipper->reduction = &host;
  const sclip_status status = sclip_clipper_step(clipper, gradients, gradient_count, report);
  clipper->reduction = nullptr;
  return status;
}

}  // extern "C"

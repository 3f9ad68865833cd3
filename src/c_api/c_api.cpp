// SPDX-License-Identifier: Apache-2.0
// The C functions: convert, forward, and turn every exception into a status and a text.
#include "spectralclip/c_api.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c_api/convert.h"
#include "c_api/host_executor.h"
#include "c_api/host_reduction.h"
#include "c_api/sized.h"
#include "require.h"
#include "spectralclip/clip.h"
#include "spectralclip/version.h"

namespace c_api = spectralclip::c_api;

struct sclip_clipper {
  spectralclip::Clipper clipper;
  std::unique_ptr<spectralclip::Executor> executor;
  std::vector<spectralclip::Gradient> gradients;  // kept, so that a step allocates nothing
  std::string load_notes;
  spectralclip::Reduction* reduction = nullptr;  // of the step under way, where parameters are split
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

std::unique_ptr<spectralclip::Executor> make_executor(const sclip_clipper_options& options) {
  if (options.executor == nullptr) return std::make_unique<spectralclip::ThreadPool>(options.threads);
  return std::make_unique<c_api::HostExecutor>(c_api::taken_over(options.executor, {}, "sclip_executor"));
}

// What is written at the end is checked at the beginning, so that a failure leaves everything as it was.
template <class Report>
void require_report(const Report* report, const char* name) {
  if (report != nullptr) c_api::require_size(report->struct_size, name);
}

// The name of a constant that comes from outside.
template <class Enum>
const char* name_of(int32_t value) noexcept {
  return value < 0 || value > 255 ? "unknown" : to_string(static_cast<Enum>(value));
}

// One text of a line each. No memory for it: the state is loaded all the same.
void keep_notes(sclip_clipper& self) noexcept {
  self.load_notes.clear();
  try {
    std::string text;
    for (const std::string& note : self.clipper.load_notes()) text += (text.empty() ? "" : "\n") + note;
    self.load_notes = std::move(text);
  } catch (...) {
    return;
  }
}

static_assert(SCLIP_VERSION_MAJOR == SPECTRALCLIP_VERSION_MAJOR && SCLIP_VERSION_MINOR == SPECTRALCLIP_VERSION_MINOR &&
              SCLIP_VERSION_PATCH == SPECTRALCLIP_VERSION_PATCH);

sclip_clipper* make_clipper(std::vector<spectralclip::Parameter> parameters, const sclip_clipper_options* options) {
  const sclip_clipper_options defaults = c_api::default_clipper_options();
  const sclip_clipper_options chosen =
      options == nullptr ? defaults : c_api::taken_over(options, defaults, "sclip_clipper_options");
  const std::size_t count = parameters.size();
  spectralclip::Clipper made(std::move(parameters), c_api::clipper_options_from(chosen));
  return new sclip_clipper{
      std::move(made), make_executor(chosen), std::vector<spectralclip::Gradient>(count), {}, nullptr};
}

}  // namespace

extern "C" {

const char* sclip_version(void) { return spectralclip::version(); }
int32_t sclip_version_number(void) { return SCLIP_VERSION; }
const char* sclip_simd_target(void) { return spectralclip::simd_target(); }
const char* sclip_clip_status_name(int32_t clip_status) { return name_of<spectralclip::ClipStatus>(clip_status); }
const char* sclip_method_name(int32_t method) { return name_of<spectralclip::Method>(method); }
const char* sclip_treatment_name(int32_t treatment) { return name_of<spectralclip::Treatment>(treatment); }

const char* sclip_last_error(void) { return last_error.c_str(); }

void sclip_clip_options_init_sized(sclip_clip_options* options, uint64_t struct_size) {
  c_api::initialise(c_api::to_c(spectralclip::ClipOptions{}), options, struct_size);
}

void sclip_threshold_options_init_sized(sclip_threshold_options* options, uint64_t struct_size) {
  c_api::initialise(c_api::to_c(spectralclip::ThresholdOptions{}), options, struct_size);
}

void sclip_rule_init_sized(sclip_rule* rule, uint64_t struct_size) {
  c_api::initialise(c_api::default_rule(), rule, struct_size);
}

void sclip_clipper_options_init_sized(sclip_clipper_options* options, uint64_t struct_size) {
  c_api::initialise(c_api::default_clipper_options(), options, struct_size);
}

sclip_status sclip_clip_matrix(const sclip_matrix* G, double tau, const sclip_clip_options* options,
                               sclip_clip_report* report) {
  return guarded([&] {
    require_report(report, "sclip_clip_report");
    const auto result =
        spectralclip::clip_singular_values(c_api::matrix_from(G), tau, c_api::clip_options_from(options));
    if (report != nullptr) c_api::hand_over(c_api::to_c(result), report);
  });
}

sclip_status sclip_clip_norm(const sclip_matrix* G, double max_norm, sclip_clip_report* report) {
  return guarded([&] {
    require_report(report, "sclip_clip_report");
    const auto result = spectralclip::clip_norm(c_api::matrix_from(G), max_norm);
    if (report != nullptr) c_api::hand_over(c_api::to_c(result), report);
  });
}

sclip_status sclip_clipper_create(const sclip_parameter* parameters, int64_t parameter_count,
                                  const sclip_clipper_options* options, sclip_clipper** clipper) {
  return guarded([&] {
    required(clipper, "clipper") = nullptr;
    *clipper = make_clipper(c_api::parameters_from(parameters, parameter_count), options);
  });
}

void sclip_clipper_destroy(sclip_clipper* clipper) { delete clipper; }

sclip_status sclip_clipper_step(sclip_clipper* clipper, const sclip_gradient* gradients, int64_t gradient_count,
                                sclip_step_report* report) {
  return guarded([&] {
    sclip_clipper& self = required(clipper, "clipper");
    require_report(report, "sclip_step_report");
    const auto expected = static_cast<int64_t>(self.gradients.size());
    SPECTRALCLIP_REQUIRE(gradient_count == expected, gradient_count, " gradients were given for ", expected,
                         " parameters");
    const c_api::SizedArray given(gradients, expected, "sclip_gradient");
    for (int64_t i = 0; i < expected; ++i) {
      const sclip_gradient gradient = given[i];
      self.gradients[static_cast<std::size_t>(i)] = {gradient.data, c_api::scalar_type_from(gradient.type),
                                                     gradient.row_stride};
    }
    const auto result = self.reduction == nullptr ? self.clipper.step(self.gradients, *self.executor)
                                                  : self.clipper.step(self.gradients, *self.reduction, *self.executor);
    if (report != nullptr) c_api::hand_over(c_api::to_c(result), report);
  });
}

int64_t sclip_clipper_layer_count(const sclip_clipper* clipper) {
  return clipper == nullptr ? 0 : static_cast<int64_t>(clipper->clipper.layers().size());
}

int64_t sclip_clipper_steps(const sclip_clipper* clipper) { return clipper == nullptr ? 0 : clipper->clipper.steps(); }

int64_t sclip_clipper_workspace_bytes(const sclip_clipper* clipper) {
  return clipper == nullptr ? 0 : clipper->clipper.workspace_bytes();
}

sclip_status sclip_clipper_layer_report(const sclip_clipper* clipper, int64_t layer, sclip_layer_report* report,
                                        sclip_clip_report* clip) {
  return guarded([&] {
    const auto layers = required(clipper, "clipper").clipper.layers();
    SPECTRALCLIP_REQUIRE(layer >= 0 && std::cmp_less(layer, layers.size()), "layer ", layer, " of ", layers.size());
    require_report(report, "sclip_layer_report");
    require_report(clip, "sclip_clip_report");
    const spectralclip::LayerReport& source = layers[static_cast<std::size_t>(layer)];
    if (report != nullptr) c_api::hand_over(c_api::to_c(source), report);
    if (clip != nullptr) c_api::hand_over(c_api::to_c(source.clip), clip);
  });
}

sclip_status sclip_clipper_save(const sclip_clipper* clipper, const char* path) {
  return guarded([&] { required(clipper, "clipper").clipper.save(&required(path, "path")); });
}

sclip_status sclip_clipper_load(sclip_clipper* clipper, const char* path) {
  return guarded([&] {
    sclip_clipper& self = required(clipper, "clipper");
    self.clipper.load(&required(path, "path"));
    keep_notes(self);
  });
}

const char* sclip_clipper_load_notes(const sclip_clipper* clipper) {
  return clipper == nullptr ? "" : clipper->load_notes.c_str();
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
    keep_notes(self);
  });
}

sclip_status sclip_clipper_create_split(const sclip_parameter* parameters, const sclip_shard* shards,
                                        int64_t parameter_count, const sclip_clipper_options* options,
                                        sclip_clipper** clipper) {
  return guarded([&] {
    required(clipper, "clipper") = nullptr;
    std::vector<spectralclip::Parameter> list = c_api::parameters_from(parameters, parameter_count);
    const c_api::SizedArray given(shards, parameter_count, "sclip_shard");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const sclip_shard shard = given[static_cast<int64_t>(i)];
      list[i].shard = {.axis = shard.axis, .extent = shard.extent, .first = shard.first};
    }
    *clipper = make_clipper(std::move(list), options);
  });
}

sclip_status sclip_clipper_step_split(sclip_clipper* clipper, const sclip_gradient* gradients, int64_t gradient_count,
                                      const sclip_reduction* reduction, sclip_step_report* report) {
  std::optional<c_api::HostReduction> host;
  const sclip_status ready = guarded([&] {
    (void)required(clipper, "clipper");
    SPECTRALCLIP_REQUIRE(reduction != nullptr, "reduction is NULL");
    host.emplace(c_api::taken_over(reduction, sclip_reduction{}, "sclip_reduction"));
    SPECTRALCLIP_REQUIRE(reduction->sum != nullptr, "reduction->sum is NULL");
  });
  if (ready != SCLIP_OK) return ready;
  clipper->reduction = &*host;
  const sclip_status status = sclip_clipper_step(clipper, gradients, gradient_count, report);
  clipper->reduction = nullptr;
  return status;
}

}  // extern "C"

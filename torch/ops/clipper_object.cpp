// SPDX-License-Identifier: Apache-2.0
#include "ops/clipper_object.h"

#include <ATen/ATen.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "model/internals.h"
#include "model/report_rows.h"
#include "require.h"

namespace spectralclip::torch {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::int64_t, ClipperObject*> objects;
  std::int64_t last = 0;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

NamedTensors paired(std::vector<std::string>& names, const std::vector<at::Tensor>& parameters) {
  SPECTRALCLIP_REQUIRE(names.size() == parameters.size(), names.size(), " names for ", parameters.size(),
                       " parameters");
  NamedTensors named;
  for (std::size_t i = 0; i < names.size(); ++i) named.emplace_back(std::move(names[i]), parameters[i].detach());
  return named;
}

std::vector<Parameter> described(const std::vector<std::string>& names, const std::vector<at::Tensor>& parameters,
                                 const std::vector<SettingTexts>& own) {
  SPECTRALCLIP_REQUIRE(names.size() == parameters.size() && own.size() == names.size(), names.size(), " names and ",
                       own.size(), " lists of settings for ", parameters.size(), " parameters");
  std::vector<Parameter> list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list.push_back(parameter_from(names[i], parameters[i].sizes().vec(), own[i]));
  }
  return list;
}

SpectralClipper made(std::vector<std::string>& names, const std::vector<at::Tensor>& parameters,
                     const std::vector<SettingTexts>& own, const SettingTexts& settings,
                     const std::vector<SettingTexts>& rules) {
  std::vector<Parameter> list = described(names, parameters, own);
  return {paired(names, parameters), std::move(list), clipper_options(settings, rules)};
}

}  // namespace

ClipperObject::ClipperObject(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                             const std::vector<SettingTexts>& own, const SettingTexts& settings,
                             const std::vector<SettingTexts>& rules)
    : clipper_(made(names, parameters, own, settings, rules)) {
  const std::lock_guard lock(registry().mutex);
  handle_ = ++registry().last;
  registry().objects.emplace(handle_, this);
}

ClipperObject::~ClipperObject() {
  const std::lock_guard lock(registry().mutex);
  registry().objects.erase(handle_);
}

ClipperObject& ClipperObject::by_handle(std::int64_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(handle);
  SPECTRALCLIP_REQUIRE(found != registry().objects.end(), "there is no clipper of handle ", handle);
  return *found->second;
}

std::vector<at::Tensor> spread(const std::vector<at::Tensor>& values, const std::vector<std::int64_t>& numbers,
                               std::size_t count) {
  SPECTRALCLIP_REQUIRE(values.size() == numbers.size(), values.size(), " gradients for ", numbers.size(),
                       " parameters");
  std::vector<at::Tensor> all(count);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    SPECTRALCLIP_REQUIRE(numbers[i] >= 0 && numbers[i] < static_cast<std::int64_t>(all.size()), "parameter ",
                         numbers[i], " is beyond the ", all.size(), " here");
    all[static_cast<std::size_t>(numbers[i])] = values[i];
  }
  return all;
}

at::Tensor ClipperObject::step(const std::vector<at::Tensor>& gradients, const std::vector<std::int64_t>& numbers) {
  return clipper_.step(spread(gradients, numbers, clipper_.parameter_count()));
}

at::Tensor ClipperObject::step_parameter(std::int64_t number, const at::Tensor& gradient) {
  return clipper_.step_parameter(static_cast<std::size_t>(number), gradient);
}

void ClipperObject::add_parameters(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                                   const std::vector<SettingTexts>& own) {
  const std::vector<Parameter> list = described(names, parameters, own);
  clipper_.add_parameters(paired(names, parameters), list);
}

ClipperObject::Report ClipperObject::report() const {
  return report_of(clipper_.report());  // fetches what lies on a device, once
}

ClipperObject::Report report_of(const spectralclip::StepReport& report) {
  const auto layers = static_cast<std::int64_t>(report.layers.size());
  ClipperObject::Report all;
  auto& [names, treatments, rules, numbers, values] = all;
  numbers = at::empty({layers, 5}, at::kLong);
  auto* number = numbers.data_ptr<std::int64_t>();
  for (const LayerReport& layer : report.layers) {
    names.push_back(layer.name);
    treatments.emplace_back(to_string(layer.treatment));
    rules.push_back(layer.rule);
    *number++ = static_cast<std::int64_t>(layer.parameter);
    *number++ = layer.rows;
    *number++ = layer.cols;
    *number++ = layer.steps;
    *number++ = layer.steps_clipped;
  }
  values = report_rows(report.layers);
  return all;
}

LayerPlan ClipperObject::plan() { return plan_of(SpectralClipperInternals::layers(clipper_)); }
LayerStates ClipperObject::states() { return states_of(SpectralClipperInternals::layers(clipper_)); }
void ClipperObject::set_states(const at::Tensor& counts, const at::Tensor& averages,
                               const std::vector<at::Tensor>& windows, const std::vector<at::Tensor>& vectors) {
  torch::set_states(SpectralClipperInternals::layers(clipper_), counts, averages, windows, vectors);
}

std::vector<std::string> ClipperObject::hints() const {
  std::vector<std::string> hints;
  for (const LayerReport& layer : clipper_.layers()) hints.push_back(layer.hint);
  return hints;
}

std::vector<std::string> ClipperObject::load_notes() const {
  const auto notes = clipper_.load_notes();
  return {notes.begin(), notes.end()};
}

at::Tensor ClipperObject::serialize() const {
  const std::vector<std::uint8_t> bytes = clipper_.serialize();
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void ClipperObject::deserialize(const at::Tensor& bytes) {
  SPECTRALCLIP_REQUIRE(bytes.scalar_type() == at::kByte && bytes.dim() == 1, "a state is a uint8 tensor of one axis");
  const at::Tensor packed = bytes.to(at::kCPU).contiguous();
  clipper_.deserialize({packed.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(packed.numel())});
}

}  // namespace spectralclip::torch

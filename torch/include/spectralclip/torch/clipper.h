// SPDX-License-Identifier: Apache-2.0
// Spectral clipping of a model's gradients, between backward() and the optimizer's step():
//
//   spectralclip::torch::SpectralClipper clipper(*model);        // thresholds set themselves (EMA)
//   loss.backward();  clipper.step();  optimizer.step();
//
// Gradients are clipped in place and keep their storage and strides. CPU gradients go to the core's kernels without a
// copy where their strides allow it (channels_last included), on torch's own threads; other devices, and Backend::aten,
// go through ATen operators, batched over equal shapes, without waiting for the device.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "spectralclip/clipper.h"
#include "spectralclip/torch/step_report.h"

namespace spectralclip::torch {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;  // name, parameter

enum class Backend : std::uint8_t {
  automatic = 0,  // the core for CPU tensors, ATen operators elsewhere
  core = 1,       // CPU tensors only
  aten = 2        // ATen operators everywhere, CPU included: for testing that path
};
[[nodiscard]] const char* to_string(Backend backend) noexcept;
[[nodiscard]] Backend parse_backend(std::string_view name);  // throws InvalidArgument listing the names

// on_nonfinite = leave_all: where some gradients lie on the CPU and others on a device, either side decides for itself,
// because deciding for both would wait for the device. error_if_nonfinite does wait.
struct SpectralClipperOptions : ClipperOptions {
  Backend backend = Backend::automatic;
  bool error_if_nonfinite = false;  // throw before anything is touched when a gradient is not finite
};

class SpectralClipper {
 public:
  // Weights of torch::nn::Embedding and EmbeddingBag are skipped by type, after options.rules and before
  // default_rules(). Tied weights count once, under their first name.
  explicit SpectralClipper(const ::torch::nn::Module& model, const SpectralClipperOptions& options = {});
  explicit SpectralClipper(NamedTensors parameters, const SpectralClipperOptions& options = {});
  explicit SpectralClipper(const std::vector<at::Tensor>& parameters, const SpectralClipperOptions& options = {});
  // Parameters described by the caller, with settings of their own (parameter groups).
  SpectralClipper(NamedTensors parameters, std::vector<Parameter> described, const SpectralClipperOptions& options);
  ~SpectralClipper();
  SpectralClipper(SpectralClipper&&) noexcept;
  SpectralClipper& operator=(SpectralClipper&&) noexcept;

  // Clips the gradients of all parameters. The report's total_norm is the norm before clipping, 0-d, on the first
  // gradient's device and not waited for; not finite when a gradient is not; a CPU zero without gradients.
  StepReport step();
  // Clips the given gradients instead of the parameters' own; undefined ones count as absent.
  StepReport step(const std::vector<at::Tensor>& gradients);
  // Clips one parameter's gradient alone, inside backward: its layers advance, the others and steps() do not.
  at::Tensor step_parameter(std::size_t parameter, const at::Tensor& gradient);

  // The layers as they are, without waiting: names, rules, hints; what a device did lately is not in their clips.
  [[nodiscard]] std::span<const LayerReport> layers() const noexcept;
  // What the latest step did, per layer. Waits for the device where the gradients live on one.
  [[nodiscard]] spectralclip::StepReport report() const;
  // The same as numbers (layers x kReportFields, float64), left where they are; rows of layers without a gradient are
  // NaN.
  [[nodiscard]] at::Tensor report_values() const;

  // The threshold of each layer in words, "ema(0.9)", in the order of the report.
  [[nodiscard]] std::vector<std::string> thresholds() const;

  [[nodiscard]] std::size_t parameter_count() const noexcept;
  [[nodiscard]] std::int64_t steps() const noexcept;
  // Further parameters, with thresholds and subspaces of their own that start now.
  void add_parameters(const NamedTensors& parameters);
  void add_parameters(const NamedTensors& parameters, const std::vector<Parameter>& described);

  // One state for all backends: Clipper's versioned, checksummed bytes. Loading throws StateFileError naming what
  // differs.
  [[nodiscard]] std::vector<std::uint8_t> serialize() const;
  void deserialize(std::span<const std::uint8_t> bytes);
  void save(const std::string& path) const;  // atomic
  void load(const std::string& path);
  // What the latest load could not take over as it was (Clipper::load_notes).
  [[nodiscard]] std::span<const std::string> load_notes() const noexcept;

 private:
  friend struct SpectralClipperInternals;  // torch/model/internals.h: for operators of this tree
  struct Impl;
  std::shared_ptr<Impl> impl_;  // reports look whether it is still there
};

}  // namespace spectralclip::torch

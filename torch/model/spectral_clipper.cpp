// SPDX-License-Identifier: Apache-2.0
// A step sorts the gradients: CPU tensors become windows of the core's clipper (or working copies, where strides allow
// none), the rest goes to the device engine. One core clipper holds the layers, rules and states of both. Gradients
// that can only be measured (sparse ones; complex ones under a rule that skips them) stand aside and count for the
// norm.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "clipper/internals.h"
#include "constants.h"
#include "model/device_engine.h"
#include "model/internals.h"
#include "model/parameters.h"
#include "model/report_rows.h"
#include "model/report_source.h"
#include "require.h"
#include "spectralclip/torch/clipper.h"
#include "tensor/executor.h"
#include "tensor/gradients.h"
#include "tensor/scalar_type.h"
#include "tensor/window.h"

namespace spectralclip::torch {
namespace {

constexpr const char* kSparseRule = "sparse gradient: skipped";

ClipperOptions core_options(const SpectralClipperOptions& options) {
  ClipperOptions core = options;
  if (options.error_if_nonfinite) core.on_nonfinite = OnNonFinite::leave_all;
  return core;
}

[[noreturn]] void throw_not_finite(std::span<const LayerReport> layers) {
  std::string names;
  for (const LayerReport& layer : layers) {
    if (layer.clip.status == ClipStatus::not_finite) names += (names.empty() ? "" : ", ") + layer.name;
  }
  throw std::runtime_error("the gradients of " + (names.empty() ? "some parameters" : names) +
                           " are not finite; nothing was clipped (error_if_nonfinite is set)");
}

}  // namespace

struct SpectralClipper::Impl final : StepReport::Source {
  NamedTensors parameters;
  SpectralClipperOptions options;
  Clipper core;
  LayerSet& set;
  DeviceEngine engine;
  TorchExecutor executor;
  std::vector<std::size_t> first_layer;                // of each parameter, and the end behind the last
  std::map<std::size_t, std::string> rules_of_sparse;  // layer -> its rule, while kSparseRule stands in the report
  // Of the latest step; kept so that a step allocates nothing once it has run.
  std::vector<Gradient> windows;
  std::vector<std::pair<std::size_t, at::Tensor>> copies;  // parameter, its working copy
  std::vector<DeviceMatrix> device_matrices;
  std::vector<std::pair<std::size_t, at::Tensor>> aside;  // parameter, norm of its gradient (0-d, float64)
  std::int64_t changes = 0;                               // of the latest reports: steps, clips inside backward, loads

  Impl(NamedTensors named, std::vector<Parameter> described_parameters, const SpectralClipperOptions& wanted)
      : parameters(std::move(named)),
        options(wanted),
        core(std::move(described_parameters), core_options(wanted)),
        set(ClipperInternals::layers(core)),
        engine(set) {
    index_layers();
  }

  void index_layers() {
    first_layer.assign(parameters.size() + 1, set.layers.size());
    for (std::size_t i = set.layers.size(); i-- > 0;) first_layer[set.layers[i].parameter] = i;
  }

  [[nodiscard]] const Layer& layer_of(std::size_t parameter) const { return set.layers[first_layer[parameter]]; }
  [[nodiscard]] Axes axes_of(std::size_t parameter) const {
    return {layer_of(parameter).batch_axes, layer_of(parameter).row_axes};
  }
  [[nodiscard]] bool on_core(const at::Tensor& gradient) const {
    return options.backend != Backend::aten && gradient.device().is_cpu();
  }

  // Everything that a gradient may be refused for, before anything is written.
  void require_usable(std::size_t p, const at::Tensor& gradient) const {
    const auto& [name, parameter] = parameters[p];
    SPECTRALCLIP_REQUIRE(gradient.sizes() == parameter.sizes(), "parameter \"", name, "\" of shape ", parameter.sizes(),
                         " has a gradient of shape ", gradient.sizes());
    SPECTRALCLIP_REQUIRE(find_storage_type(gradient.scalar_type()), "parameter \"", name, "\" has a gradient of type ",
                         at::toString(gradient.scalar_type()),
                         "; float32, float64, bfloat16 and float16 can be clipped, a rule that skips \"", name,
                         "\" leaves it alone");
    SPECTRALCLIP_REQUIRE(!will_write(p) || at::has_internal_overlap(gradient) != at::MemOverlap::Yes, "parameter \"",
                         name, "\" of shape ", parameter.sizes(), " has an expanded gradient (strides ",
                         gradient.strides(),
                         "), whose entries share memory and cannot be written one by one; set parameter.grad = "
                         "parameter.grad.clone() first");
    SPECTRALCLIP_REQUIRE(options.backend != Backend::core || gradient.device().is_cpu(), "parameter \"", name,
                         "\" has a gradient on ", gradient.device().str(), "; backend core clips CPU tensors only");
  }
  [[nodiscard]] bool is_skipped(std::size_t p) const {
    return set.reports[first_layer[p]].treatment == Treatment::skip;
  }
  [[nodiscard]] bool will_write(std::size_t p) const {
    return !options.observe_only && !layer_of(p).clip.observe_only && !is_skipped(p);
  }

  // False for what is not clipped: no gradient, a sparse one (the layer says why), a skipped one of another type.
  bool usable(std::size_t p, const at::Tensor& gradient) {
    if (!gradient.defined() || gradient.numel() == 0) return false;
    if (gradient.layout() == at::kStrided) {
      if (!rules_of_sparse.empty()) restore_rules(p);
      if (is_skipped(p) && !find_storage_type(gradient.scalar_type())) {
        aside.emplace_back(p, norm_of(gradient));
        return false;
      }
      require_usable(p, gradient);
      return true;
    }
    aside.emplace_back(p, norm_of(gradient));
    for (std::size_t i = first_layer[p]; i < first_layer[p + 1]; ++i) {
      rules_of_sparse.try_emplace(i, set.reports[i].rule);
      set.reports[i].rule = kSparseRule;
    }
    return false;
  }
  void restore_rules(std::size_t p) {
    for (std::size_t i = first_layer[p]; i < first_layer[p + 1]; ++i) {
      if (auto rule = rules_of_sparse.extract(i)) set.reports[i].rule = std::move(rule.mapped());
    }
  }

  struct Windowed {
    at::Tensor tensor;
    Window window;
  };
  // The gradient where it lies, or a working copy where its strides allow no window.
  Windowed windowed(std::size_t p, const at::Tensor& gradient) {
    const Axes axes = axes_of(p);
    if (const std::optional<Window> window = window_of(gradient, axes)) return {gradient, *window};
    copies.emplace_back(p, gradient.contiguous());
    return {copies.back().second, packed_window(gradient.sizes(), axes)};
  }

  Gradient core_gradient(std::size_t p, const at::Tensor& gradient) {
    const Windowed source = windowed(p, gradient);
    return {source.tensor.data_ptr(), storage_type(gradient, parameters[p].first), source.window.row_stride};
  }

  void add_device_matrices(std::size_t p, const at::Tensor& gradient) {
    const Windowed source = windowed(p, gradient);
    std::size_t layer = first_layer[p];
    for (at::Tensor& matrix : matrices_of(source.tensor, source.window)) {
      device_matrices.push_back({layer++, std::move(matrix)});
    }
  }

  void sort(const std::vector<at::Tensor>& gradients) {
    windows.assign(parameters.size(), Gradient{});
    copies.clear();
    device_matrices.clear();
    aside.clear();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!usable(p, gradients[p])) continue;
      if (on_core(gradients[p])) {
        windows[p] = core_gradient(p, gradients[p]);
      } else {
        add_device_matrices(p, gradients[p]);
      }
    }
  }

  // Whether the core changed a matrix of this parameter.
  [[nodiscard]] bool written(std::size_t p) const {
    const auto begin = set.reports.begin() + static_cast<std::ptrdiff_t>(first_layer[p]);
    const auto end = set.reports.begin() + static_cast<std::ptrdiff_t>(first_layer[p + 1]);
    return !options.observe_only &&
           std::any_of(begin, end, [](const LayerReport& report) { return report.clip.written(); });
  }

  // From the working copies; those of a device always, because nobody has looked.
  void write_back(const std::vector<at::Tensor>& gradients) {
    for (const auto& [p, copy] : copies) {
      if (on_core(gradients[p]) ? written(p) : !options.observe_only) gradients[p].copy_(copy);
    }
    copies.clear();
  }

  // The core writes to memory, not through an operator: autograd's saved tensors must notice all the same.
  void announce_writes(const std::vector<at::Tensor>& gradients) const {
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      if (!gradients[p].defined() || gradients[p].is_inference() || !on_core(gradients[p])) continue;
      if (written(p)) gradients[p].unsafeGetTensorImpl()->bump_version();
    }
  }

  // To the report: on a device only what has been waited for already (a sparse gradient, to be coalesced).
  void report_aside() {
    for (const auto& [p, norm] : aside) {
      if (first_layer[p + 1] != first_layer[p] + 1 || !norm.is_cpu()) continue;
      LayerReport& report = set.reports[first_layer[p]];
      const double value = norm.item<double>();
      report.has_gradient = true;
      report.clip = {};
      report.clip.status = std::isfinite(value) ? ClipStatus::ok : ClipStatus::not_finite;
      report.clip.tau = kInfinity;
      report.clip.norm_before = report.clip.norm_after = report.clip.sigma_max = report.clip.sigma_bound = value;
      report.clip.passes = 1;
    }
  }
  void require_finite_aside() const {
    for (const auto& [p, norm] : aside) {
      if (std::isfinite(norm.item<double>())) continue;
      throw std::runtime_error("the gradient of " + parameters[p].first +
                               " is not finite; nothing was clipped (error_if_nonfinite is set)");
    }
  }

  // error_if_nonfinite has to know, so it waits for the device, once.
  void require_finite_on_device() const {
    require_finite_aside();
    std::vector<at::Tensor> flags;
    for (const DeviceMatrix& m : device_matrices) {
      flags.push_back(m.matrix.isfinite().all().to(device_matrices.front().matrix.device()));
    }
    if (flags.empty() || at::stack(flags).all().item<bool>()) return;
    const auto bad = std::find_if(flags.begin(), flags.end(), [](const at::Tensor& f) { return !f.item<bool>(); });
    const std::size_t layer = device_matrices[static_cast<std::size_t>(bad - flags.begin())].layer;
    throw std::runtime_error("the gradient of " + set.reports[layer].name +
                             " is not finite; nothing was clipped (error_if_nonfinite is set)");
  }

  // Of what the core clipped and of what was clipped elsewhere (sums of squares).
  static at::Tensor total_norm(const std::vector<at::Tensor>& gradients, const spectralclip::StepReport& core,
                               const std::vector<at::Tensor>& squares) {
    const auto first =
        std::find_if(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.defined(); });
    if (first == gradients.end()) return at::zeros({});
    const at::ScalarType type = promoted_type(gradients);
    const double core_norm = core.layers_not_finite > 0 ? kNaN : core.total_norm;
    const auto wide = at::TensorOptions().dtype(at::kDouble).device(first->device());
    if (squares.empty()) return at::scalar_tensor(core_norm, wide.dtype(type));
    at::Tensor sum = at::full({}, core_norm * core_norm, wide);
    for (const at::Tensor& square : squares) sum = sum + square.to(first->device());
    return sum.sqrt().to(type);
  }

  at::Tensor step(const std::vector<at::Tensor>& gradients) {
    SPECTRALCLIP_REQUIRE(gradients.size() == parameters.size(), gradients.size(), " gradients were given for ",
                         parameters.size(), " parameters");
    const at::NoGradGuard no_grad;
    sort(gradients);
    if (options.error_if_nonfinite) require_finite_on_device();
    engine.settle(device_matrices);
    ++changes;
    const spectralclip::StepReport report = core.step(windows, executor);
    if (report.left_all && options.error_if_nonfinite) throw_not_finite(report.layers);
    const bool leave_all = options.on_nonfinite == OnNonFinite::leave_all;
    std::vector<at::Tensor> squares = engine.step(device_matrices, leave_all);
    for (const auto& [p, norm] : aside) squares.push_back(norm.square());
    report_aside();
    write_back(gradients);
    announce_writes(gradients);
    return total_norm(gradients, report, squares);
  }

  at::Tensor step_parameter(std::size_t p, const at::Tensor& gradient) {
    SPECTRALCLIP_REQUIRE(p < parameters.size(), "parameter ", p, " is beyond the ", parameters.size(), " here");
    const at::NoGradGuard no_grad;
    aside.clear();
    if (!usable(p, gradient)) {
      report_aside();
      return aside.empty() ? at::zeros({}) : aside.back().second;
    }
    SPECTRALCLIP_REQUIRE(on_core(gradient), "parameter \"", parameters[p].first,
                         "\": clipping inside backward works on CPU gradients with the core's backend");
    ++changes;
    copies.clear();
    windows.resize(parameters.size());
    windows[p] = core_gradient(p, gradient);
    core.step_parameter(p, windows[p], executor);
    std::vector<at::Tensor> gradients(parameters.size());
    gradients[p] = gradient;
    write_back(gradients);
    announce_writes(gradients);
    const auto own = std::span(set.reports).subspan(first_layer[p], first_layer[p + 1] - first_layer[p]);
    return total_norm(gradients, ClipperInternals::summary(own), {});
  }

  [[nodiscard]] std::int64_t moment() const noexcept override { return changes; }
  [[nodiscard]] std::span<const LayerReport> fetched_layers() override {
    engine.pull_reports();
    return set.reports;
  }

  // Rows of the core are copied to the device, which waits for it: only where there are any.
  [[nodiscard]] bool core_had_gradients() const {
    return std::any_of(windows.begin(), windows.end(), [](const Gradient& g) { return g.data != nullptr; });
  }
};

SpectralClipper::SpectralClipper(const ::torch::nn::Module& model, const SpectralClipperOptions& options)
    : SpectralClipper(parameters_of(model), with_type_rules(options, model)) {}
SpectralClipper::SpectralClipper(NamedTensors parameters, const SpectralClipperOptions& options) {
  std::vector<Parameter> shapes = described(parameters);
  impl_ = std::make_shared<Impl>(std::move(parameters), std::move(shapes), options);
}
SpectralClipper::SpectralClipper(const std::vector<at::Tensor>& parameters, const SpectralClipperOptions& options)
    : SpectralClipper(numbered(parameters), options) {}
SpectralClipper::SpectralClipper(NamedTensors parameters, std::vector<Parameter> described_parameters,
                                 const SpectralClipperOptions& options)
    : impl_(std::make_shared<Impl>(std::move(parameters), std::move(described_parameters), options)) {}
SpectralClipper::~SpectralClipper() = default;
SpectralClipper::SpectralClipper(SpectralClipper&&) noexcept = default;
SpectralClipper& SpectralClipper::operator=(SpectralClipper&&) noexcept = default;

StepReport SpectralClipper::step() {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : impl_->parameters) gradients.push_back(parameter.grad());
  return step(gradients);
}
StepReport SpectralClipper::step(const std::vector<at::Tensor>& gradients) {
  at::Tensor norm = impl_->step(gradients);
  return {std::move(norm), impl_->core.steps(), impl_};
}
at::Tensor SpectralClipper::step_parameter(std::size_t parameter, const at::Tensor& gradient) {
  return impl_->step_parameter(parameter, gradient);
}

spectralclip::StepReport SpectralClipper::report() const {
  impl_->engine.pull_reports();
  spectralclip::StepReport report = ClipperInternals::summary(impl_->set.reports);
  report.step = impl_->core.steps();
  return report;
}

std::span<const LayerReport> SpectralClipper::layers() const noexcept { return impl_->set.reports; }

at::Tensor SpectralClipper::report_values() const {
  if (impl_->engine.empty()) return report_rows(impl_->set.reports);
  const at::Tensor device = impl_->engine.report_values();
  if (!impl_->core_had_gradients()) return device;
  return at::where(device.isnan().all(1, true), report_rows(impl_->set.reports).to(device.device()), device);
}

std::vector<std::string> SpectralClipper::thresholds() const {
  std::vector<std::string> texts;
  for (const Layer& layer : impl_->set.layers) texts.push_back(to_string(layer.threshold));
  return texts;
}

std::size_t SpectralClipper::parameter_count() const noexcept { return impl_->parameters.size(); }
std::int64_t SpectralClipper::steps() const noexcept { return impl_->core.steps(); }

void SpectralClipper::add_parameters(const NamedTensors& parameters) {
  add_parameters(parameters, described(parameters));
}
void SpectralClipper::add_parameters(const NamedTensors& parameters, const std::vector<Parameter>& described_ones) {
  impl_->core.add(described_ones);
  impl_->parameters.insert(impl_->parameters.end(), parameters.begin(), parameters.end());
  impl_->index_layers();
}

LayerSet& SpectralClipperInternals::layers(SpectralClipper& clipper) noexcept { return clipper.impl_->set; }

std::vector<std::uint8_t> SpectralClipper::serialize() const {
  impl_->engine.pull_states();
  return impl_->core.serialize();
}
void SpectralClipper::deserialize(std::span<const std::uint8_t> bytes) {
  impl_->core.deserialize(bytes);
  ++impl_->changes;
  impl_->engine.forget();
}
void SpectralClipper::save(const std::string& path) const {
  impl_->engine.pull_states();
  impl_->core.save(path);
}
void SpectralClipper::load(const std::string& path) {
  impl_->core.load(path);
  ++impl_->changes;
  impl_->engine.forget();
}
std::span<const std::string> SpectralClipper::load_notes() const noexcept { return impl_->core.load_notes(); }

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "sharded/sharded_clipper.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "clipper/internals.h"
#include "constants.h"
#include "require.h"
#include "tensor/gradients.h"
#include "tensor/scalar_type.h"
#include "tensor/window.h"

namespace spectralclip::torch {
namespace {

ClipperOptions core_options(const SpectralClipperOptions& options) {
  ClipperOptions core = options;
  if (options.error_if_nonfinite) core.on_nonfinite = OnNonFinite::leave_all;
  return core;
}

std::vector<std::int64_t> local_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape = parameter.shape;
  if (parameter.shard.axis >= 0) shape.at(static_cast<std::size_t>(parameter.shard.axis)) = parameter.shard.extent;
  return shape;
}

}  // namespace

ShardedClipper::ShardedClipper(std::vector<Parameter> parameters, const SpectralClipperOptions& options)
    : options_(options),
      parameters_(std::move(parameters)),
      core_(parameters_, core_options(options)),
      set_(ClipperInternals::layers(core_)) {
  SPECTRALCLIP_REQUIRE(options.backend != Backend::aten, "backend aten does not clip shards: use auto or core");
  index_layers();
}

void ShardedClipper::index_layers() {
  first_layer_.assign(parameters_.size() + 1, set_.layers.size());
  for (std::size_t i = set_.layers.size(); i-- > 0;) first_layer_[set_.layers[i].parameter] = i;
}

void ShardedClipper::add(const std::vector<Parameter>& parameters) {
  core_.add(parameters);
  parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  index_layers();
}

// ---- a step

// Where the shard lies, or a packed copy of it on the host.
Gradient ShardedClipper::window(std::size_t p, const at::Tensor& gradient) {
  static std::byte nothing;
  const Parameter& parameter = parameters_[p];
  SPECTRALCLIP_REQUIRE(gradient.layout() == at::kStrided, "parameter \"", parameter.name, "\" has a sparse gradient");
  const std::vector<std::int64_t> expected = local_shape(parameter);
  SPECTRALCLIP_REQUIRE(gradient.sizes() == at::IntArrayRef(expected), "parameter \"", parameter.name,
                       "\" has a shard of ", at::IntArrayRef(expected), " here and a gradient of ", gradient.sizes());
  const ScalarType type = storage_type(gradient, parameter.name);
  if (gradient.numel() == 0) return {&nothing, type, 0};
  const Layer& layer = set_.layers[first_layer_[p]];
  const Axes axes{layer.batch_axes, layer.row_axes};
  if (gradient.device().is_cpu()) {
    if (const std::optional<Window> found = window_of(gradient, axes))
      return {gradient.data_ptr(), type, found->row_stride};
  }
  copies_.emplace_back(p, gradient.to(at::kCPU).clone(at::MemoryFormat::Contiguous));
  return {copies_.back().second.data_ptr(), type, packed_window(gradient.sizes(), axes).row_stride};
}

std::string ShardedClipper::take(const std::vector<at::Tensor>& gradients) {
  try {
    SPECTRALCLIP_REQUIRE(gradients.size() == parameters_.size(), gradients.size(), " gradients were given for ",
                         parameters_.size(), " parameters");
    windows_.assign(parameters_.size(), Gradient{});
    for (std::size_t p = 0; p < gradients.size(); ++p)
      if (gradients[p].defined()) windows_[p] = window(p, gradients[p]);
    return {};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

void ShardedClipper::begin(const std::vector<at::Tensor>& gradients) {
  gradients_ = gradients;
  copies_.clear();
  const std::string refusal = take(gradients);
  step_ = &ClipperInternals::begin_rounds(core_, windows_, refusal, executor_);
  step_->share_work(rank_, ranks_);
}

int ShardedClipper::next() {
  const int buckets = step_->next(executor_);
  packed_.resize(static_cast<std::size_t>(buckets));
  return buckets;
}

ShardedClipper::Sums ShardedClipper::run(int bucket) {
  Packed& packed = packed_[static_cast<std::size_t>(bucket)];
  packed.blocks = step_->run(bucket, executor_);
  packed.sums.float32 = at::empty({packed_count(packed.blocks, ScalarType::float32)}, at::kFloat);
  packed.sums.float64 = at::empty({packed_count(packed.blocks, ScalarType::float64)}, at::kDouble);
  pack(packed.blocks, ScalarType::float32, packed.sums.float32.data_ptr());
  pack(packed.blocks, ScalarType::float64, packed.sums.float64.data_ptr());
  return packed.sums;
}

void ShardedClipper::give(int bucket) {
  Packed& packed = packed_[static_cast<std::size_t>(bucket)];
  unpack(packed.sums.float32.const_data_ptr(), ScalarType::float32, packed.blocks);
  unpack(packed.sums.float64.const_data_ptr(), ScalarType::float64, packed.blocks);
  packed.sums = {};
}

bool ShardedClipper::written(std::size_t p) const {
  const auto begin = set_.reports.begin() + static_cast<std::ptrdiff_t>(first_layer_.at(p));
  const auto end = set_.reports.begin() + static_cast<std::ptrdiff_t>(first_layer_.at(p + 1));
  return !options_.observe_only &&
         std::any_of(begin, end, [](const LayerReport& report) { return report.clip.written(); });
}

at::Tensor ShardedClipper::finish() {
  const at::NoGradGuard no_grad;
  const spectralclip::StepReport report = ClipperInternals::end_rounds(core_);
  for (const auto& [p, copy] : copies_)
    if (written(p)) gradients_[p].copy_(copy);
  for (std::size_t p = 0; p < gradients_.size(); ++p)
    if (gradients_[p].defined() && !gradients_[p].is_inference() && written(p))
      gradients_[p].unsafeGetTensorImpl()->bump_version();
  if (report.left_all && options_.error_if_nonfinite) {
    std::string names;
    for (const LayerReport& layer : report.layers)
      if (layer.clip.status == ClipStatus::not_finite) names += (names.empty() ? "" : ", ") + layer.name;
    gradients_.clear();
    throw std::runtime_error("the gradients of " + (names.empty() ? "some parameters" : names) +
                             " are not finite; nothing was clipped (error_if_nonfinite is set)");
  }
  const auto first =
      std::find_if(gradients_.begin(), gradients_.end(), [](const at::Tensor& g) { return g.defined(); });
  at::Tensor total = at::zeros({});
  if (first != gradients_.end()) {
    const double norm = report.layers_not_finite > 0 ? kNaN : report.total_norm;
    total = at::scalar_tensor(norm, at::TensorOptions().dtype(promoted_type(gradients_)).device(first->device()));
  }
  gradients_.clear();
  copies_.clear();
  return total;
}

spectralclip::StepReport ShardedClipper::report() const {
  spectralclip::StepReport report = ClipperInternals::summary(set_.reports);
  report.step = core_.steps();
  return report;
}

}  // namespace spectralclip::torch

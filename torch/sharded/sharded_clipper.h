// SPDX-License-Identifier: Apache-2.0
// The clipper of parameters of which this process holds a shard, for adapters that bring the sums over ranks
// themselves:
//
//   clipper.begin(local_gradients);
//   while (const int buckets = clipper.next())
//     for (int b = 0; b < buckets; ++b) { const Sums sums = clipper.run(b);  /* all_reduce both tensors */
//     clipper.give(b); }
//   const at::Tensor total_norm = clipper.finish();
//
// Shards are clipped where they lie, by the core's kernels on torch's threads; those on another device, and those whose
// strides allow no window, by way of a copy of the shard.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "clipper/sharded_step.h"
#include "spectralclip/torch/clipper.h"
#include "tensor/executor.h"

namespace spectralclip::torch {

class ShardedClipper {
 public:
  // Shapes are those of the whole parameters; Parameter::shard says what lies here.
  ShardedClipper(std::vector<Parameter> parameters, const SpectralClipperOptions& options);

  // gradients[i]: the local part, undefined without a gradient. What is wrong with them is thrown by the first next(),
  // after the other ranks have heard of it.
  void begin(const std::vector<at::Tensor>& gradients);
  [[nodiscard]] int next();
  struct Sums {
    at::Tensor float32;  // one axis, on the CPU; empty where there is nothing to add up
    at::Tensor float64;
  };
  [[nodiscard]] Sums run(int bucket);
  void give(int bucket);  // the tensors of run(bucket) hold the sums of all ranks
  [[nodiscard]] int group(int bucket) const { return step_->group(bucket); }
  // Layers that every rank holds whole may be shared: share() is what this rank did, for take_share() of all others,
  // between the last round and finish().
  void share_work(int rank, int ranks) { rank_ = rank, ranks_ = ranks; }
  [[nodiscard]] std::vector<std::uint8_t> share() const { return step_->share(); }
  void take_share(std::span<const std::uint8_t> bytes) { step_->take_share(bytes, executor_); }
  at::Tensor finish();

  void add(const std::vector<Parameter>& parameters);
  [[nodiscard]] spectralclip::StepReport report() const;
  [[nodiscard]] std::int64_t steps() const noexcept { return core_.steps(); }
  [[nodiscard]] bool written(std::size_t parameter) const;
  [[nodiscard]] std::vector<std::uint8_t> serialize() const { return core_.serialize(); }
  void deserialize(std::span<const std::uint8_t> bytes) { core_.deserialize(bytes); }

 private:
  struct Packed {
    Sums sums;
    std::span<const SumBlock> blocks;
  };

  void index_layers();
  [[nodiscard]] Gradient window(std::size_t parameter, const at::Tensor& gradient);
  [[nodiscard]] std::string take(const std::vector<at::Tensor>& gradients);

  SpectralClipperOptions options_;
  std::vector<Parameter> parameters_;
  Clipper core_;
  LayerSet& set_;
  TorchExecutor executor_;
  ShardedStep* step_ = nullptr;
  int rank_ = 0, ranks_ = 1;
  std::vector<std::size_t> first_layer_;  // of each parameter, and the end behind the last
  std::vector<at::Tensor> gradients_;     // of the step under way …
  std::vector<Gradient> windows_;
  std::vector<std::pair<std::size_t, at::Tensor>> copies_;  // … and what stands for some of them
  std::vector<Packed> packed_;
};

}  // namespace spectralclip::torch

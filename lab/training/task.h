// SPDX-License-Identifier: Apache-2.0
// What a training task brings: a network, the loss of a batch, an evaluation. The loop (training.h) is the same for
// all: noise, clipping, optimizers, checkpoints, records.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config.h"
#include "engine/experiment.h"
#include "spectralclip/torch/clipper.h"
#include "training/training.h"

namespace spectralclip::lab {

using spectralclip::torch::NamedTensors;

// Parameters that one optimizer trains, with options of their own.
struct ParameterGroup {
  std::string label;
  NamedTensors parameters;
  OptimizerConfig optimizer;
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  // Parameters, buffers, train and eval mode. A tensor that is used twice (tied weights) is registered once.
  [[nodiscard]] virtual ::torch::nn::Module& model() = 0;
  // Mean loss of pass `micro` (0, 1, …, train.accumulation - 1) of a step: scalar, with a graph. The batch depends on
  // (seed, step, micro) alone; torch's own generators were seeded by (seed, step), so dropout does too, and a resumed
  // run sees the same ones.
  virtual at::Tensor loss(std::int64_t step, std::int64_t micro) = 0;
  // The metrics of the present weights, by the names that the task declares. `last`: after the last step, where the
  // whole of everything is looked at; else what is affordable now and then. In eval mode, without gradients.
  virtual nlohmann::ordered_json evaluate(bool last) = 0;
  // Which way the first of these metrics is better.
  [[nodiscard]] virtual Better better() const { return Better::smaller; }
  // How parameters are trained: mostly standard_groups().
  [[nodiscard]] virtual std::vector<ParameterGroup> groups() = 0;
  // What the clipper of the configuration sees. The default: all parameters.
  [[nodiscard]] virtual NamedTensors clipped();
  // Learning rate of a group as a share of its peak; `scheduled` is what train.schedule says.
  [[nodiscard]] virtual double rate(const std::string& group, std::int64_t step, double scheduled) const {
    (void)group, (void)step;
    return scheduled;
  }
  // Numbers about the task itself, into the results ("baseline_loss": what predicting the mean costs, …).
  [[nodiscard]] virtual nlohmann::ordered_json facts() const { return nlohmann::ordered_json::object(); }
};

// name -> parameter, each once, without those that are not trained.
[[nodiscard]] NamedTensors trained_parameters(const ::torch::nn::Module& model);
// Weight matrices between hidden layers: two axes or more, and no embedding, position table or head.
[[nodiscard]] bool is_hidden_matrix(const std::string& name, const at::Tensor& parameter);
// One group of all; with optimizer.vectors = adam or adamw the hidden matrices and, beside them, the rest.
[[nodiscard]] std::vector<ParameterGroup> standard_groups(const NamedTensors& parameters,
                                                          const OptimizerConfig& config);

using MakeTask = std::unique_ptr<TrainingTask> (*)(const Config& config);
[[nodiscard]] std::unique_ptr<Experiment> make_training(const Config& config, MakeTask make);

// TaskInfo::make of a task whose constructor takes (config).
template <class Task>
[[nodiscard]] std::unique_ptr<Experiment> train(const Config& config) {
  return make_training(config,
                       [](const Config& c) -> std::unique_ptr<TrainingTask> { return std::make_unique<Task>(c); });
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// The optimizers and the clipper that a configuration names, and the learning rate of a step.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "record/state.h"
#include "spectralclip/torch/gradient_clipper.h"
#include "training/task.h"

namespace spectralclip::lab {

// One optimizer a group, stepped together.
class Optimizers {
 public:
  explicit Optimizers(const std::vector<ParameterGroup>& groups);

  void zero_grad();
  // Learning rates: of each group its peak times rate(label).
  template <class Rate>
  void set_rates(Rate&& rate) {
    for (const One& one : all_) set_rate(*one.optimizer, one.peak * rate(one.label));
  }
  void step();

  void save(StateWriter& out) const;  // sections "optimizer", "optimizer.1", …
  void load(const StateReader& in);

 private:
  struct One {
    std::string label;
    double peak;
    std::unique_ptr<::torch::optim::Optimizer> optimizer;
  };
  static void set_rate(::torch::optim::Optimizer& optimizer, double lr);
  static std::string section(std::size_t index);

  std::vector<One> all_;
};

// Share of the peak rate at a step (they count from 1). `share`: of the budget of time that was used up before this
// step, where there is one; the schedule then follows it instead of the steps.
[[nodiscard]] double scheduled_rate(const TrainConfig& config, std::int64_t step, double share);

[[nodiscard]] std::unique_ptr<spectralclip::torch::GradientClipper> make_clipper(const NamedTensors& parameters,
                                                                                 const ClipConfig& config);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Directions on their way from momentum to the parameters: clipped on the way if somebody asked for it.
#pragma once

#include <utility>
#include <vector>

#include "spectralclip/torch/clip_directions.h"

namespace spectralclip::torch {

// take(parameter, direction, options) for each, at once, or after all of them were clipped together.
template <class Options, class Take>
class Directions {
 public:
  Directions(const DirectionClip& clip, Take take) : clip_(clip), take_(std::move(take)) {}

  // `kept`: the direction belongs to somebody (the buffer, the gradient) and must not be written.
  void add(const at::Tensor& parameter, const at::Tensor& direction, bool kept, const Options& options) {
    if (!clip_.clip) {
      take_(parameter, direction, options);
      return;
    }
    parameters_.push_back(parameter);
    directions_.push_back(kept ? direction.clone() : direction);
    options_.push_back(&options);
    if (clip_.one_at_a_time) flush();
  }

  void flush() {
    if (parameters_.empty()) return;
    clip_.clip(parameters_, directions_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) take_(parameters_[i], directions_[i], *options_[i]);
    parameters_.clear();
    directions_.clear();
    options_.clear();
  }

 private:
  const DirectionClip& clip_;
  Take take_;
  std::vector<at::Tensor> parameters_, directions_;
  std::vector<const Options*> options_;
};

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// What adapters of this tree may see of a clipper: its layers with their options and states, so that an engine of
// another device can work on them and leave checkpoints to the core. Not part of the public interface.
#pragma once

#include <string>

#include "clipper/layer.h"

namespace spectralclip {

class ShardedStep;  // sharded_step.h

struct ClipperInternals {
  // A step over ranks, driven by the caller: begin, rounds of the ShardedStep until none is left, end. refusal: why
  // this rank cannot take part, which the others then hear; empty otherwise.
  static ShardedStep& begin_rounds(Clipper& clipper, std::span<const Gradient> gradients, const std::string& refusal,
                                   Executor& executor);
  static StepReport end_rounds(Clipper& clipper);
  [[nodiscard]] static LayerSet& layers(Clipper& clipper) noexcept;
  // Totals over the layers' reports, in their order.
  [[nodiscard]] static StepReport summary(std::span<const LayerReport> layers);
};

}  // namespace spectralclip

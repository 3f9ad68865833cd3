// SPDX-License-Identifier: Apache-2.0
// What adapters of this tree may see of a clipper: its layers with their options and states, so that an engine of
// another device can work on them and leave checkpoints to the core. Not part of the public interface.
#pragma once

#include "clipper/layer.h"

namespace spectralclip {

struct ClipperInternals {
  [[nodiscard]] static LayerSet& layers(Clipper& clipper) noexcept;
  // Totals over the layers' reports, in their order.
  [[nodiscard]] static StepReport summary(std::span<const LayerReport> layers);
};

}  // namespace spectralclip

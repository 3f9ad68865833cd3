// SPDX-License-Identifier: Apache-2.0
// What the operators of this tree may see of a clipper: the layers with their options and states, so that an engine
// written in Python can work on them and leave checkpoints to the core. Not part of the public interface.
#pragma once

#include "clipper/layer.h"
#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

struct SpectralClipperInternals {
  [[nodiscard]] static LayerSet& layers(SpectralClipper& clipper) noexcept;
};

}  // namespace spectralclip::torch

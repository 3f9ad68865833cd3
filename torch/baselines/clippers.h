// SPDX-License-Identifier: Apache-2.0
// One maker per kind of clipper; make_gradient_clipper.cpp chooses.
#pragma once

#include <memory>

#include "spectralclip/torch/gradient_clipper.h"

namespace spectralclip::torch {

// none, global_norm, layer_norm, agc, coordinate.
[[nodiscard]] std::unique_ptr<GradientClipper> make_elementary_clipper(const NamedTensors& parameters,
                                                                       const GradientClipOptions& options);
[[nodiscard]] std::unique_ptr<GradientClipper> make_soft_clipper(const NamedTensors& parameters,
                                                                 const GradientClipOptions& options);
[[nodiscard]] std::unique_ptr<GradientClipper> make_soft_update_clipper(const NamedTensors& parameters,
                                                                        const GradientClipOptions& options);
[[nodiscard]] std::unique_ptr<GradientClipper> make_spectral_clipper(const NamedTensors& parameters,
                                                                     const GradientClipOptions& options);

}  // namespace spectralclip::torch

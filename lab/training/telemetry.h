// SPDX-License-Identifier: Apache-2.0
// What a step did to each layer, as JSON for layers.jsonl and spectra.jsonl.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::lab {

// From the spectral clipper's own report.
[[nodiscard]] nlohmann::ordered_json layer_lines(const StepReport& report);
// For the other clippers: sigma_max of each gradient matrix, by a spectral clipper that observes and writes nothing.
[[nodiscard]] nlohmann::ordered_json observed_layers(const StepReport& report);
[[nodiscard]] spectralclip::torch::SpectralClipper make_observer(const spectralclip::torch::NamedTensors& parameters);

// Singular values of each gradient matrix, in order of the parameters; (d0, rest) for more than two axes.
[[nodiscard]] std::vector<at::Tensor> gradient_spectra(const spectralclip::torch::NamedTensors& parameters);
[[nodiscard]] nlohmann::ordered_json spectra_lines(const spectralclip::torch::NamedTensors& parameters,
                                                   const std::vector<at::Tensor>& before,
                                                   const std::vector<at::Tensor>& after);

// Root of the sum of squares of all gradients.
[[nodiscard]] double gradient_norm(const spectralclip::torch::NamedTensors& parameters);

}  // namespace spectralclip::lab

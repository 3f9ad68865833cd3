// SPDX-License-Identifier: Apache-2.0
#include "training/telemetry.h"

#include <torch/torch.h>

#include <cmath>

namespace spectralclip::lab {
namespace {

using nlohmann::ordered_json;
using spectralclip::torch::NamedTensors;

at::Tensor matrix_of(const at::Tensor& gradient) { return gradient.reshape({gradient.size(0), -1}); }

std::vector<double> numbers(const at::Tensor& values) {
  const at::Tensor doubles = values.to(at::kDouble).contiguous();
  return {doubles.data_ptr<double>(), doubles.data_ptr<double>() + doubles.numel()};
}

}  // namespace

ordered_json layer_lines(const StepReport& report) {
  ordered_json layers = ordered_json::array();
  for (const LayerReport& layer : report.layers) {
    if (!layer.has_gradient || layer.treatment == Treatment::skip) continue;
    layers.push_back({{"name", layer.name},
                      {"sigma1", layer.clip.sigma_max},
                      {"tau", layer.clip.tau},
                      {"n_clipped", layer.clip.clipped},
                      {"status", to_string(layer.clip.status)},
                      {"removed_energy", layer.clip.removed_energy},
                      {"steps", layer.steps},
                      {"steps_clipped", layer.steps_clipped}});
  }
  return {{"layers", layers}};
}

ordered_json observed_layers(const StepReport& report) {
  ordered_json layers = ordered_json::array();
  for (const LayerReport& layer : report.layers)
    if (layer.has_gradient && layer.treatment == Treatment::spectral && observed(layer.clip.status))
      layers.push_back({{"name", layer.name}, {"sigma1", layer.clip.sigma_max}, {"tau", nullptr}});
  return {{"layers", layers}};
}

spectralclip::torch::SpectralClipper make_observer(const NamedTensors& parameters) {
  spectralclip::torch::SpectralClipperOptions options;
  options.observe_only = true;
  return spectralclip::torch::SpectralClipper(parameters, options);
}

std::vector<at::Tensor> gradient_spectra(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> spectra;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    const bool usable = gradient.defined() && gradient.dim() >= 2 && at::isfinite(gradient).all().item<bool>();
    spectra.push_back(usable ? at::linalg_svdvals(matrix_of(gradient).to(at::kDouble)) : at::Tensor());
  }
  return spectra;
}

ordered_json spectra_lines(const NamedTensors& parameters, const std::vector<at::Tensor>& before,
                           const std::vector<at::Tensor>& after) {
  ordered_json layers = ordered_json::array();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (before[i].defined() && after[i].defined())
      layers.push_back({{"name", parameters[i].first}, {"before", numbers(before[i])}, {"after", numbers(after[i])}});
  return {{"layers", layers}};
}

double gradient_norm(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) sum += std::pow(parameter.grad().norm().item<double>(), 2);
  return std::sqrt(sum);
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Stateless calls are a clipper of one step: constant threshold, no names, so no rule but that of the shape.
#include "spectralclip/torch/clip_grad.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "require.h"
#include "spectralclip/torch/report_fields.h"

namespace spectralclip::torch {
namespace {

SpectralClipperOptions constant_options(double tau, const ClipOptions& clip, Backend backend) {
  SPECTRALCLIP_REQUIRE(tau >= 0, "max_sigma = ", tau, " is not a number >= 0");
  SpectralClipperOptions options;
  options.threshold.kind = ThresholdKind::constant;
  options.threshold.tau = tau;
  options.clip = clip;
  options.backend = backend;
  return options;
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// As clip_grad_norm_ counts: a tensor given twice has its square in the sum twice.
at::Tensor norm_with_repetitions(const SpectralClipper& clipper, const std::vector<double>& times) {
  const at::Tensor norms = clipper.report_values().select(1, static_cast<std::int64_t>(ReportField::norm_before));
  return (norms.square() * at::tensor(times, at::kDouble).to(norms.device())).sum().sqrt();
}

}  // namespace

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_sigma, const ClipGradOptions& options,
                          bool error_if_nonfinite) {
  SpectralClipperOptions constant = constant_options(max_sigma, options.clip, options.backend);
  constant.error_if_nonfinite = error_if_nonfinite;
  std::vector<at::Tensor> present;  // once each
  std::vector<double> times;        // how often it was given
  at::ScalarType type = at::ScalarType::Undefined;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    type = type == at::ScalarType::Undefined ? gradient.scalar_type() : at::promote_types(type, gradient.scalar_type());
    if (gradient.numel() == 0) continue;
    const auto same = std::find_if(present.begin(), present.end(), [&](const at::Tensor& g) { return g.is_same(gradient); });
    if (same != present.end()) {
      ++times[static_cast<std::size_t>(same - present.begin())];
    } else {
      present.push_back(gradient);
      times.push_back(1);
    }
  }
  if (present.empty()) return at::zeros({}, type == at::ScalarType::Undefined ? at::kFloat : type);
  SpectralClipper clipper(present, constant);
  const at::Tensor norm = clipper.step(present);
  const bool repeated = std::any_of(times.begin(), times.end(), [](double t) { return t > 1; });
  return repeated ? norm_with_repetitions(clipper, times).to(norm.device(), type) : norm.to(type);
}

double clip_grad_spectral_(const std::vector<at::Tensor>& parameters, double max_sigma, const ClipGradOptions& options,
                           bool error_if_nonfinite) {
  return clip_gradients(gradients_of(parameters), max_sigma, options, error_if_nonfinite).item<double>();
}
double clip_grad_spectral_(std::initializer_list<at::Tensor> parameters, double max_sigma,
                           const ClipGradOptions& options, bool error_if_nonfinite) {
  return clip_grad_spectral_(std::vector<at::Tensor>(parameters), max_sigma, options, error_if_nonfinite);
}
double clip_grad_spectral_(at::Tensor parameter, double max_sigma, const ClipGradOptions& options,
                           bool error_if_nonfinite) {
  return clip_grad_spectral_(std::vector<at::Tensor>{std::move(parameter)}, max_sigma, options, error_if_nonfinite);
}

at::Tensor clip_singular_values_(const at::Tensor& G, double tau, const ClipOptions& options, Backend backend) {
  SPECTRALCLIP_REQUIRE(G.dim() >= 2, "a matrix (m, n) or a batch (…, m, n) is needed, not a tensor of shape ",
                       G.sizes());
  SpectralClipperOptions constant = constant_options(tau, options, backend);
  Rule every;  // spectral whatever the shape: (1, n) is a matrix here
  every.batch_axes = static_cast<int>(G.dim()) - 2;
  constant.rules.push_back(every);
  SPECTRALCLIP_REQUIRE(!options.rank || *options.rank <= std::min(G.size(-2), G.size(-1)), "rank = ",
                       options.rank.value_or(0), " is above min(m, n) of a ", G.size(-2), " x ", G.size(-1), " matrix");
  if (G.numel() == 0) return at::empty({0, kReportFields}, at::kDouble);
  const std::vector<at::Tensor> one = {G};
  SpectralClipper clipper(one, constant);
  (void)clipper.step(one);
  return clipper.report_values();
}

}  // namespace spectralclip::torch

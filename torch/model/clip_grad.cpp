// SPDX-License-Identifier: Apache-2.0
// Stateless calls are a clipper of one step: constant threshold, no names, so no rule but that of the shape.
#include "spectralclip/torch/clip_grad.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "require.h"
#include "spectralclip/torch/report_fields.h"
#include "tensor/gradients.h"

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

// What was given, once each, with how often it was given; without empty and undefined tensors.
struct Given {
  std::vector<at::Tensor> gradients;
  std::vector<double> times;
  [[nodiscard]] bool repeated() const {
    return std::any_of(times.begin(), times.end(), [](double n) { return n > 1; });
  }
};

Given distinct(const std::vector<at::Tensor>& gradients) {
  Given given;
  std::unordered_map<const void*, std::size_t> places;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined() || gradient.numel() == 0) continue;
    const auto [at, fresh] = places.try_emplace(gradient.unsafeGetTensorImpl(), given.gradients.size());
    if (fresh) {
      given.gradients.push_back(gradient);
      given.times.push_back(0);
    }
    ++given.times[at->second];
  }
  return given;
}

// As clip_grad_norm_ counts: a tensor given twice has its square in the sum twice. One layer a tensor, so one row. Rows
// without a status were not clipped at all (sparse gradients) and count as zero; what is not finite makes the sum NaN.
at::Tensor norm_with_repetitions(const at::Tensor& rows, const std::vector<double>& times) {
  const at::Tensor status = rows.select(1, static_cast<std::int64_t>(ReportField::status));
  const at::Tensor norms = rows.select(1, static_cast<std::int64_t>(ReportField::norm_before));
  at::Tensor squares = at::where(status.isnan(), 0.0, norms.square());
  squares.masked_fill_(status == static_cast<double>(ClipStatus::not_finite), std::numeric_limits<double>::quiet_NaN());
  at::Tensor sum = squares.sum();
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] > 1) sum = sum + squares.select(0, static_cast<std::int64_t>(i)) * (times[i] - 1);
  }
  return sum.sqrt();
}

}  // namespace

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_sigma, const ClipGradOptions& options,
                          bool error_if_nonfinite) {
  SpectralClipperOptions constant = constant_options(max_sigma, options.clip, options.backend);
  constant.error_if_nonfinite = error_if_nonfinite;
  const auto first = std::find_if(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.defined(); });
  if (first == gradients.end()) return at::zeros({});
  const auto result = at::TensorOptions().dtype(promoted_type(gradients)).device(first->device());
  const Given given = distinct(gradients);
  if (given.gradients.empty()) return at::zeros({}, result);
  SpectralClipper clipper(given.gradients, constant);
  const at::Tensor norm = clipper.step(given.gradients);
  return (given.repeated() ? norm_with_repetitions(clipper.report_values(), given.times) : norm).to(result);
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
  SPECTRALCLIP_REQUIRE(!options.rank || *options.rank <= std::min(G.size(-2), G.size(-1)),
                       "rank = ", options.rank.value_or(0), " is above min(m, n) of a ", G.size(-2), " x ", G.size(-1),
                       " matrix");
  if (G.numel() == 0) return at::empty({0, kReportFields}, G.options().dtype(at::kDouble));
  const std::vector<at::Tensor> one = {G};
  SpectralClipper clipper(one, constant);
  (void)clipper.step(one);
  return clipper.report_values();
}

}  // namespace spectralclip::torch

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

// `name`: what the caller knows tau as.
SpectralClipperOptions constant_options(const char* name, double tau, const ClipOptions& clip, Backend backend) {
  SPECTRALCLIP_REQUIRE(tau >= 0, name, " = ", tau, " is not a number >= 0");
  SpectralClipperOptions options;
  options.threshold.kind = ThresholdKind::constant;
  options.threshold.tau = tau;
  options.clip = clip;
  if (clip.exhausted == Exhausted::automatic) options.clip.exhausted = Exhausted::go_exact;
  options.backend = backend;
  return options;
}

// What was given, once each, with how often it was given; without empty and undefined tensors.
struct Given {
  std::vector<at::Tensor> gradients;
  std::vector<double> times;
  std::vector<std::int64_t> places;  // of each tensor that was given among `gradients`, -1 for those left out
  [[nodiscard]] bool repeated() const {
    return std::any_of(times.begin(), times.end(), [](double n) { return n > 1; });
  }
};

Given distinct(const std::vector<at::Tensor>& gradients) {
  Given given;
  std::unordered_map<const void*, std::size_t> places;
  for (const at::Tensor& gradient : gradients) {
    given.places.push_back(-1);
    if (!gradient.defined() || gradient.numel() == 0) continue;
    const auto [at, fresh] = places.try_emplace(gradient.unsafeGetTensorImpl(), given.gradients.size());
    if (fresh) {
      given.gradients.push_back(gradient);
      given.times.push_back(0);
    }
    ++given.times[at->second];
    given.places.back() = static_cast<std::int64_t>(at->second);
  }
  return given;
}

// As clip_grad_norm_ counts: a tensor given twice has its square in the sum twice, `norm` has it once. One layer a
// tensor, so one row; what is not finite makes the sum NaN.
at::Tensor norm_with_repetitions(const at::Tensor& norm, const at::Tensor& rows, const std::vector<double>& times) {
  const at::Tensor status = rows.select(1, static_cast<std::int64_t>(ReportField::status));
  const at::Tensor norms = rows.select(1, static_cast<std::int64_t>(ReportField::norm_before));
  at::Tensor squares = at::where(status.isnan(), 0.0, norms.square());
  squares.masked_fill_(status == static_cast<double>(ClipStatus::not_finite), std::numeric_limits<double>::quiet_NaN());
  at::Tensor sum = norm.to(squares.options()).square();
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] > 1) sum = sum + squares.select(0, static_cast<std::int64_t>(i)) * (times[i] - 1);
  }
  return sum.sqrt();
}

// One layer a tensor, so one row; a row without a status was not clipped at all.
at::Tensor statuses_of(const at::Tensor& rows, const std::vector<std::int64_t>& places) {
  const at::Tensor status = rows.select(1, static_cast<std::int64_t>(ReportField::status));
  const at::Tensor clipped = at::nan_to_num(status, static_cast<double>(ClipStatus::ok));
  const at::Tensor ok = at::full({1}, static_cast<double>(ClipStatus::ok), clipped.options());
  std::vector<at::Tensor> parts;
  for (const std::int64_t place : places) parts.push_back(place < 0 ? ok : clipped.slice(0, place, place + 1));
  return at::cat(parts).to(at::kLong);
}

constexpr int rank_of(ClipStatus status) noexcept {
  switch (status) {
    case ClipStatus::ok:
      return 0;
    case ClipStatus::not_converged:
      return 1;
    case ClipStatus::rank_exhausted:
      return 2;
    case ClipStatus::out_of_range:
      return 3;
    case ClipStatus::factorization_failed:
      return 4;
    case ClipStatus::out_of_memory:
      return 5;
    case ClipStatus::not_finite:
      return 6;
  }
  return 7;
}

ClipStatus worst_of(const at::Tensor& statuses) {
  const at::Tensor values = statuses.to(at::kCPU).contiguous();
  ClipStatus worst = ClipStatus::ok;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    worst = worse(worst, static_cast<ClipStatus>(values.const_data_ptr<std::int64_t>()[i]));
  }
  return worst;
}

}  // namespace

ClipStatus worse(ClipStatus a, ClipStatus b) noexcept { return rank_of(a) < rank_of(b) ? b : a; }

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_sigma, const ClipGradOptions& options,
                          bool error_if_nonfinite, at::Tensor* statuses) {
  SpectralClipperOptions constant = constant_options("max_sigma", max_sigma, options.clip, options.backend);
  constant.error_if_nonfinite = error_if_nonfinite;
  const auto first = std::find_if(gradients.begin(), gradients.end(), [](const at::Tensor& g) { return g.defined(); });
  if (statuses != nullptr) {
    const auto device = first == gradients.end() ? at::Device(at::kCPU) : first->device();
    *statuses = at::zeros({static_cast<std::int64_t>(gradients.size())}, at::dtype(at::kLong).device(device));
  }
  if (first == gradients.end()) return at::zeros({});
  const auto result = at::TensorOptions().dtype(promoted_type(gradients)).device(first->device());
  const Given given = distinct(gradients);
  if (given.gradients.empty()) return at::zeros({}, result);
  SpectralClipper clipper(given.gradients, constant);
  const at::Tensor norm = clipper.step(given.gradients);
  if (statuses != nullptr) *statuses = statuses_of(clipper.report_values(), given.places).to(first->device());
  return (given.repeated() ? norm_with_repetitions(norm, clipper.report_values(), given.times) : norm).to(result);
}

double clip_grad_spectral_(const std::vector<at::Tensor>& parameters, double max_sigma, const ClipGradOptions& options,
                           bool error_if_nonfinite, ClipStatus* worst) {
  at::Tensor statuses;
  const at::Tensor norm = clip_gradients(gradients_of(parameters), max_sigma, options, error_if_nonfinite,
                                         worst == nullptr ? nullptr : &statuses);
  if (worst != nullptr) *worst = worst_of(statuses);
  return norm.item<double>();
}
double clip_grad_spectral_(std::initializer_list<at::Tensor> parameters, double max_sigma,
                           const ClipGradOptions& options, bool error_if_nonfinite, ClipStatus* worst) {
  return clip_grad_spectral_(std::vector<at::Tensor>(parameters), max_sigma, options, error_if_nonfinite, worst);
}
double clip_grad_spectral_(at::Tensor parameter, double max_sigma, const ClipGradOptions& options,
                           bool error_if_nonfinite, ClipStatus* worst) {
  return clip_grad_spectral_(std::vector<at::Tensor>{std::move(parameter)}, max_sigma, options, error_if_nonfinite,
                             worst);
}

at::Tensor clip_singular_values_(const at::Tensor& G, double tau, const ClipOptions& options, Backend backend) {
  SPECTRALCLIP_REQUIRE(G.dim() >= 2, "a matrix (m, n) or a batch (…, m, n) is needed, not a tensor of shape ",
                       G.sizes());
  SpectralClipperOptions constant = constant_options("tau", tau, options, backend);
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

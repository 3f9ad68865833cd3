// SPDX-License-Identifier: Apache-2.0
// Norm clipping on the device: the same decisions as clip/clip_norm.cpp, by masks.
#include <algorithm>
#include <vector>

#include "aten/batch_report.h"
#include "aten/clip.h"
#include "aten/matrix_batch.h"
#include "aten/storage.h"
#include "require.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// One number per tensor that depends on its type alone: a scalar expanded where all types agree, as they nearly always
// do.
template <class OfType>
Tensor per_type(const std::vector<Tensor>& tensors, const at::TensorOptions& options, const OfType& of_type) {
  const auto value = [&](const Tensor& t) { return at::full({1}, of_type(storage_type(t.scalar_type())), options); };
  const bool equal = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const Tensor& t) { return t.scalar_type() == tensors[0].scalar_type(); });
  if (equal) return value(tensors[0]);
  std::vector<Tensor> values;
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(values), value);
  return at::cat(values);
}

void scale(const std::vector<Tensor>& tensors, const Tensor& factor, const Tensor& changed) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    Tensor G = tensors[i];
    at::where_out(G, changed.select(0, place), at::mul(G, factor.select(0, place)).to(G.scalar_type()), G);
  }
}

}  // namespace

Tensor clip_norms(const std::vector<Tensor>& tensors, const Tensor& tau, bool write) {
  const auto L = static_cast<std::int64_t>(tensors.size());
  SPECTRALCLIP_REQUIRE(L > 0, "a batch of no tensors");
  SPECTRALCLIP_REQUIRE(tau.dim() == 1 && tau.size(0) == L && tau.scalar_type() == at::kDouble, "tau must hold ", L,
                       " numbers in float64");
  const at::NoGradGuard no_grad;
  const Tensor norm = frobenius_norms(tensors);
  const Tensor level = tau * (1 + per_type(tensors, tau.options(), dead_band));
  BatchReport report;
  report.passes = 1;
  report.finite = at::isfinite(norm);
  const Tensor changed = report.finite.logical_and(norm > level);
  const Tensor factor = at::where(changed, tau / norm, 1.0);
  const Tensor bound = tau * (1 + per_type(tensors, tau.options(), storage_epsilon));
  report.tau = tau;
  report.sigma_max = report.norm_before = norm;
  report.clipped = changed.to(at::kDouble);
  report.norm_after = at::where(changed, tau, norm);
  report.removed_energy = 1 - factor.square();
  report.sigma_bound = at::where(changed, bound, norm);
  report.error_estimate = at::zeros_like(norm);
  if (write) scale(tensors, factor, changed);
  return to_rows(report);
}

}  // namespace spectralclip::torch::aten

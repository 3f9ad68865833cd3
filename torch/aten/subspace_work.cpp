// SPDX-License-Identifier: Apache-2.0
#include "aten/subspace_work.h"

#include <algorithm>

#include "aten/clip_subspace.h"
#include "aten/random_columns.h"
#include "aten/storage.h"
#include "constants.h"
#include "subspace/certificate.h"
#include "subspace/search.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// One number a matrix, in float64; equal ones in one operator.
template <class Of>
Tensor numbers(const std::vector<Tensor>& matrices, const at::TensorOptions& options, const Of& of) {
  std::vector<Tensor> parts;
  for (const Tensor& G : matrices) parts.push_back(at::full({1}, of(G), options));
  return at::cat(parts);
}

Tensor spread_of(const std::vector<Tensor>& matrices, std::int64_t n, const at::TensorOptions& options) {
  const auto own = [](const Tensor& G) { return static_cast<double>(G.size(1)); };
  const Tensor cols = numbers(matrices, options, own).view({-1, 1, 1});
  return at::where(at::arange(n, options) < cols, cols.rsqrt(), 0.0);
}

}  // namespace

// `sign` tells values apart that are a tenth of the way from tau to the level (margin / 4 above it) from the level: in
// C they stand at about that distance. `root` reaches spikes of 10^6 tau; beyond, tau / sigma comes out too small.
SubspaceWork::SubspaceWork(const std::vector<Tensor>& matrices, const ClipOptions& options)
    : kept(followed_rows(options)), first(matrices, kept + kFreshColumns), last(matrices, kept + 2 * kFreshColumns) {
  constexpr std::int64_t kSignTerms = 18, kRootTerms = 40;
  const at::Device device = matrices[0].device();
  const auto wide = at::dtype(at::kDouble).device(device);
  const std::int64_t k = kept + 2 * kFreshColumns, n = last.V.size(2);
  for (const Tensor& G : matrices) shapes.push_back(G.sizes().vec());
  identity = at::eye(k, wide);
  positions = row_positions(2 * kFreshColumns, n, device);
  spread = spread_of(matrices, n, wide);
  smaller =
      numbers(matrices, wide, [](const Tensor& G) { return static_cast<double>(std::min(G.size(0), G.size(1))); });
  const double radius_squared = small_ball_radius_squared(kFreshColumns, kEstimateFailure);
  probe = numbers(matrices, wide, [&](const Tensor& G) { return static_cast<double>(G.size(1)) / radius_squared; });
  within = (at::arange(k, wide) < smaller.unsqueeze(1)).to(at::kDouble).unsqueeze(2);
  const auto unprobed_of = [&](const Tensor& G) { return std::min(G.size(0), G.size(1)) < k ? kInfinity : 0.0; };
  unprobed = numbers(matrices, wide, unprobed_of);
  fade = at::arange(2 * k, k, -1, wide).div_(static_cast<double>(2 * k)).unsqueeze(1);
  sign = make_inverse_root(std::max(options.margin, 1e-7) / 40, 1, kSignTerms, identity);
  root = make_inverse_root(1e-6, 1e12, kRootTerms, identity);
}

bool SubspaceWork::fits(const std::vector<Tensor>& matrices) const {
  return std::equal(matrices.begin(), matrices.end(), shapes.begin(), shapes.end(),
                    [](const Tensor& G, const auto& shape) { return G.sizes() == at::IntArrayRef(shape); });
}

}  // namespace spectralclip::torch::aten

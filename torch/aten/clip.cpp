// SPDX-License-Identifier: Apache-2.0
#include "aten/clip.h"

#include <ATen/Context.h>

#include "aten/batch_report.h"
#include "aten/clip_dense.h"
#include "aten/clip_subspace.h"
#include "aten/matrix_batch.h"
#include "aten/storage.h"
#include "constants.h"
#include "require.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// Only what the host knows is checked: shapes, types, devices.
void require_batch(const std::vector<Tensor>& matrices, const Tensor& tau, const BatchStream& stream) {
  SPECTRALCLIP_REQUIRE(!matrices.empty(), "a batch of no matrices");
  const Tensor& first = matrices[0];
  SPECTRALCLIP_REQUIRE(first.dim() == 2 && first.numel() > 0, "a tensor of ", first.dim(), " axes and ", first.numel(),
                       " entries is not a matrix");
  (void)storage_type(first.scalar_type());
  for (const Tensor& G : matrices) {
    SPECTRALCLIP_REQUIRE(
        G.sizes() == first.sizes() && G.scalar_type() == first.scalar_type() && G.device() == first.device(),
        "matrices of a batch differ in shape, type or device");
  }
  const auto L = static_cast<std::int64_t>(matrices.size());
  SPECTRALCLIP_REQUIRE(tau.dim() == 1 && tau.size(0) == L && tau.scalar_type() == at::kDouble, "tau must hold ", L,
                       " numbers in float64");
  SPECTRALCLIP_REQUIRE(static_cast<std::int64_t>(stream.matrix_ids.size()) == L, stream.matrix_ids.size(),
                       " matrix ids for ", L, " matrices");
}

bool is_subspace_method(Method method) {
  return method == Method::tracked || method == Method::automatic || method == Method::sketched;
}

// The report of a matrix that tau = 0 erases; its size was measured as if it were not to be clipped.
void report_erased(const Tensor& erased, std::int64_t smaller_side, BatchReport& report) {
  const auto set = [&](Tensor& field, double value) { field = at::where(erased, value, field); };
  set(report.clipped, static_cast<double>(smaller_side));
  set(report.norm_after, 0);
  set(report.removed_energy, 1);
  set(report.sigma_bound, 0);
  set(report.error_estimate, 0);
  if (report.exhausted.defined()) report.exhausted = report.exhausted.logical_and(erased.logical_not());
  if (report.unconverged.defined()) report.unconverged = report.unconverged.logical_and(erased.logical_not());
  if (report.certain.defined()) report.certain = report.certain.logical_or(erased);
}

void erase(const std::vector<Tensor>& matrices, const Tensor& erased) {
  const Tensor zero = at::zeros({}, matrices[0].options());
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    Tensor G = matrices[i];
    at::where_out(G, erased.select(0, static_cast<std::int64_t>(i)), zero, G);
  }
}

// What the search left, by the dense method: the one place here that looks.
Tensor finish_dense(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                    const BatchReport& search, Tensor rows) {
  const Tensor left = search.exhausted.logical_or(search.unconverged).logical_and_(search.finite).to(at::kCPU);
  std::vector<Tensor> unfinished;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < left.size(0); ++i) {
    if (!left.const_data_ptr<bool>()[i]) continue;
    unfinished.push_back(matrices[static_cast<std::size_t>(i)]);
    places.push_back(i);
  }
  if (places.empty()) return rows;
  const Tensor index = whole_numbers(places, tau.device());
  BatchReport dense = clip_dense(unfinished, tau.index_select(0, index), Method::newton_schulz, !options.observe_only);
  dense.passes += search.passes;
  return rows.index_copy_(0, index, to_rows(dense));
}

BatchReport clip_positive(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                          const BatchStream& stream, BatchSubspace& state) {
  if (!is_subspace_method(options.method)) return clip_dense(matrices, tau, options.method, !options.observe_only);
  return clip_by_subspace(MatrixBatch(matrices), tau, options, stream, state);
}

}  // namespace

Tensor clip_batch(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                  const BatchStream& stream, BatchSubspace& state, bool tau_may_be_zero) {
  require_batch(matrices, tau, stream);
  const at::NoGradGuard no_grad;
  const at::NoTF32Guard full_products;  // ten bits of mantissa would be the accuracy of everything here
  const Tensor positive = tau_may_be_zero ? at::where(tau > 0, tau, kInfinity) : tau;
  BatchReport report = clip_positive(matrices, positive, options, stream, state);
  const BatchReport search = report;
  if (tau_may_be_zero) {
    const Tensor erased = (tau <= 0).logical_and_(report.finite).logical_and_(report.sigma_max > 0);
    report.tau = tau;
    report_erased(erased, std::min(matrices[0].size(0), matrices[0].size(1)), report);
    if (!options.observe_only) erase(matrices, erased);
  }
  const bool finish = is_subspace_method(options.method) && finishes_dense(options);
  return finish ? finish_dense(matrices, positive, options, search, to_rows(report)) : to_rows(report);
}

}  // namespace spectralclip::torch::aten

// SPDX-License-Identifier: Apache-2.0
#include "aten/clip.h"

#include <ATen/Context.h>

#include <algorithm>

#include "aten/batch_report.h"
#include "aten/clip_dense.h"
#include "aten/clip_subspace.h"
#include "aten/matrix_batch.h"
#include "aten/storage.h"
#include "constants.h"
#include "require.h"
#include "subspace/search.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

// Only what the host knows is checked: shapes, types, devices.
void require_batch(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                   const BatchStream& stream) {
  SPECTRALCLIP_REQUIRE(!matrices.empty(), "a batch of no matrices");
  const Tensor& first = matrices[0];
  SPECTRALCLIP_REQUIRE(first.dim() == 2 && first.numel() > 0, "a tensor of ", first.dim(), " axes and ", first.numel(),
                       " entries is not a matrix");
  (void)storage_type(first.scalar_type());
  for (const Tensor& G : matrices) {
    SPECTRALCLIP_REQUIRE(batch_together(options, G.sizes(), first.sizes()) && G.scalar_type() == first.scalar_type() &&
                             G.device() == first.device(),
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
void report_erased(const Tensor& erased, const std::vector<Tensor>& matrices, BatchReport& report) {
  const auto set = [&](Tensor& field, double value) { field = at::where(erased, value, field); };
  std::vector<std::int64_t> sides;
  for (const Tensor& G : matrices) sides.push_back(std::min(G.size(0), G.size(1)));
  report.clipped = at::where(erased, whole_numbers(sides, erased.device()).to(at::kDouble), report.clipped);
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
  const Tensor left = search.unconverged.to(at::kCPU);
  std::vector<Tensor> unfinished;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < left.size(0); ++i) {
    if (!left.const_data_ptr<bool>()[i]) continue;
    unfinished.push_back(matrices[static_cast<std::size_t>(i)]);
    places.push_back(i);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Tensor place = whole_numbers({places[i]}, tau.device());
    BatchReport dense =
        clip_dense({unfinished[i]}, tau.index_select(0, place), Method::newton_schulz, !options.observe_only);
    dense.passes += search.passes;
    rows.index_copy_(0, place, to_rows(dense));
  }
  return rows;
}

BatchReport clip_positive(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                          const BatchStream& stream, BatchSubspace& state) {
  if (!is_subspace_method(options.method)) return clip_dense(matrices, tau, options.method, !options.observe_only);
  return clip_by_subspace(matrices, tau, options, stream, state);
}

constexpr std::int64_t kSimilar = 4;  // sides of a batch may differ by this factor: what padding costs at most

bool similar(std::int64_t a, std::int64_t b) { return std::max(a, b) <= kSimilar * std::min(a, b); }

}  // namespace

void require_honoured(const ClipOptions& options) {
  constexpr const char* kWhere = " is not served by ATen operators: ";
  SPECTRALCLIP_REQUIRE(!options.measure_time, "measure_time", kWhere, "stages run after the call returned");
  if (!is_subspace_method(options.method)) return;
  if (options.method == Method::sketched) {
    SPECTRALCLIP_REQUIRE(options.power_passes >= 1, "power_passes = ", options.power_passes, kWhere,
                         "two passes are made");
    return;
  }
  const std::int64_t width = followed_rows(options) + 2 * kFreshColumns;
  SPECTRALCLIP_REQUIRE(options.max_passes >= 2, "max_passes = ", options.max_passes, kWhere, "two passes are made");
  SPECTRALCLIP_REQUIRE(options.max_columns >= width, "max_columns = ", options.max_columns, kWhere,
                       followed_rows(options), " directions take ", width, " columns");
}

bool batch_together(const ClipOptions& options, at::IntArrayRef a, at::IntArrayRef b) {
  if (a == b) return true;
  const bool large = a[0] * a[1] >= kStackedEntries && b[0] * b[1] >= kStackedEntries;
  return is_subspace_method(options.method) && large && similar(a[0], b[0]) && similar(a[1], b[1]);
}

Tensor clip_batch(const std::vector<Tensor>& matrices, const Tensor& tau, const ClipOptions& options,
                  const BatchStream& stream, BatchSubspace& state, bool tau_may_be_zero) {
  require_batch(matrices, tau, options, stream);
  require_honoured(options);
  const at::NoGradGuard no_grad;
  const at::NoTF32Guard full_products;  // ten bits of mantissa would be the accuracy of everything here
  const Tensor positive = tau_may_be_zero ? at::where(tau > 0, tau, kInfinity) : tau;
  BatchReport report = clip_positive(matrices, positive, options, stream, state);
  const BatchReport search = report;
  if (tau_may_be_zero) {
    const Tensor erased = (tau <= 0).logical_and_(report.finite).logical_and_(report.sigma_max > 0);
    report.tau = tau;
    report_erased(erased, matrices, report);
    if (!options.observe_only) erase(matrices, erased);
  }
  const bool finish = is_subspace_method(options.method) && finishes_dense(options);
  return finish ? finish_dense(matrices, positive, options, search, to_rows(report)) : to_rows(report);
}

}  // namespace spectralclip::torch::aten

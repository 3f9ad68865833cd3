// SPDX-License-Identifier: Apache-2.0
#include "subspace/pass.h"

#include <algorithm>

#include "kernels/apply_right.h"
#include "kernels/small_products.h"
#include "subspace/work_rows.h"

namespace spectralclip {
namespace {

using kernels::padded;

}  // namespace

template <class T>
PassBuffers<T> PassBuffers<T>::plan(const AnyMatrix& G, std::int64_t k, const Executor& executor) {
  PassBuffers b;
  b.k = k;
  b.share = k * padded(G.cols);
  b.slabs = make_slabs(G.rows, G.cols, b.share * static_cast<std::int64_t>(sizeof(T)));
  b.lanes = executor.concurrency() > 1 ? b.slabs.count : 1;
  b.scratch_entries = padded(kernels::fused_pass_scratch<T>(k)) + conversion_entries(G);
  return b;
}

template <class T>
std::size_t PassBuffers<T>::bytes() const noexcept {
  return Workspace::padded_bytes<T>(lanes * share) + Workspace::padded_bytes<double>(slabs.count * k * k) +
         Workspace::padded_bytes<double>(slabs.count) + Workspace::padded_bytes<T>(lanes * scratch_entries);
}

template <class T>
void PassBuffers<T>::grant(Workspace& workspace) noexcept {
  shares = workspace.take<T>(lanes * share);
  grams = workspace.take<double>(slabs.count * k * k);
  norms = workspace.take<double>(slabs.count);
  scratch = workspace.take<T>(lanes * scratch_entries);
}

template <class T>
double run_pass(const AnyMatrix& G, const T* Vt, T* Zt, double* S, const PassBuffers<T>& b, Executor& executor) {
  const std::int64_t gram = b.k * b.k;
  const bool parallel = b.lanes > 1;
  std::fill(b.grams, b.grams + b.slabs.count * gram, 0.0);
  auto slab_task = [&](std::int64_t slab) {
    T* share = slab == 0 ? Zt : b.shares + (parallel ? slab * b.share : 0);
    T* scratch = b.scratch + (parallel ? slab * b.scratch_entries : 0);
    T* converted = scratch + padded(kernels::fused_pass_scratch<T>(b.k));
    std::fill(share, share + b.share, T{0});
    b.norms[slab] =
        over_rows<T, false>(G, b.slabs.begin(slab), b.slabs.size(slab), converted,
                            [&](const T* rows, std::int64_t count, std::int64_t stride) {
                              return kernels::fused_pass(kernels::FusedPass<T>{rows, count, G.cols, stride, Vt, b.k,
                                                                               share, b.grams + slab * gram, scratch});
                            });
    if (!parallel && slab > 0) kernels::add_inplace(Zt, share, b.share);
  };
  if (parallel) {
    executor.run(b.slabs.count, slab_task);
  } else {
    for (std::int64_t slab = 0; slab < b.slabs.count; ++slab) slab_task(slab);
  }
  std::copy(b.grams, b.grams + gram, S);
  double norm_squared = b.norms[0];
  for (std::int64_t slab = 1; slab < b.slabs.count; ++slab) {  // always in this order
    if (parallel) kernels::add_inplace(Zt, b.shares + slab * b.share, b.share);
    kernels::add_inplace(S, b.grams + slab * gram, gram);
    norm_squared += b.norms[slab];
  }
  return norm_squared;
}

template <class T>
double run_update(const AnyMatrix& G, const T* Vt, std::int64_t c, const T* coefficient, const PassBuffers<T>& b,
                  Executor& executor) {
  auto slab_task = [&](std::int64_t slab) {
    T* scratch = b.scratch + (b.lanes > 1 ? slab * b.scratch_entries : 0);
    T* converted = scratch + padded(kernels::fused_pass_scratch<T>(b.k));
    b.norms[slab] = over_rows<T, true>(
        G, b.slabs.begin(slab), b.slabs.size(slab), converted, [&](T* rows, std::int64_t count, std::int64_t stride) {
          return kernels::apply_right(
              kernels::RightUpdate<T>{rows, count, G.cols, stride, Vt, c, coefficient, scratch});
        });
  };
  if (b.lanes > 1) {
    executor.run(b.slabs.count, slab_task);
  } else {
    for (std::int64_t slab = 0; slab < b.slabs.count; ++slab) slab_task(slab);
  }
  double norm_squared = 0;
  for (std::int64_t slab = 0; slab < b.slabs.count; ++slab) norm_squared += b.norms[slab];
  return norm_squared;
}

template struct PassBuffers<float>;
template struct PassBuffers<double>;
template double run_pass(const AnyMatrix&, const float*, float*, double*, const PassBuffers<float>&, Executor&);
template double run_pass(const AnyMatrix&, const double*, double*, double*, const PassBuffers<double>&, Executor&);
template double run_update(const AnyMatrix&, const float*, std::int64_t, const float*, const PassBuffers<float>&,
                           Executor&);
template double run_update(const AnyMatrix&, const double*, std::int64_t, const double*, const PassBuffers<double>&,
                           Executor&);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "subspace/pass.h"

#include <algorithm>

#include "kernels/apply_right.h"
#include "kernels/small_products.h"
#include "subspace/work_rows.h"

namespace spectralclip {
namespace {

using kernels::padded;

// How much memory k columns need; slabs that may be under way at once have scratch of their own.
template <class T>
struct PassSizes {
  Slabs slabs;
  std::int64_t lanes;
  std::int64_t share;            // entries of one slab's share of Zt, 0 for an update
  std::int64_t sums;             // doubles of one slab
  std::int64_t scratch_entries;  // of one lane

  PassSizes(const Rows& G, std::int64_t k, bool update, const Executor& executor)
      : slabs(make_slabs(G.rows(), G.cols(), k * padded(G.cols()) * static_cast<std::int64_t>(sizeof(T)))),
        lanes(executor.concurrency() > 1 ? slabs.count : 1),
        share(update ? 0 : k * padded(G.cols())),
        sums(update ? 1 : PassResult<T>::sums_of(k)),
        scratch_entries(padded(kernels::fused_pass_scratch<T>(k)) + conversion_entries(G)) {}
  [[nodiscard]] std::size_t bytes() const noexcept {
    return Arena::padded_bytes<T>(lanes * share) + Arena::padded_bytes<double>(slabs.count * sums) +
           Arena::padded_bytes<T>(lanes * scratch_entries);
  }
};

// Passes of later steps are rarely wider: they find their memory booked.
constexpr std::int64_t kUsualColumns = 16;

// That memory, cut from an arena.
template <class T>
struct PassMemory : PassSizes<T> {
  T* shares = nullptr;
  double* slab_sums = nullptr;
  T* scratch = nullptr;
  using PassSizes<T>::slabs, PassSizes<T>::lanes, PassSizes<T>::scratch_entries;

  PassMemory(const Rows& G, std::int64_t k, bool update, Arena& arena, const Executor& executor)
      : PassSizes<T>(G, k, update, executor) {
    const PassSizes<T> usual(G, std::max(k, kUsualColumns), false, executor);
    arena.reserve(std::max(this->bytes(), usual.bytes()));
    shares = arena.take<T>(lanes * this->share);
    slab_sums = arena.take<double>(slabs.count * this->sums);
    scratch = arena.take<T>(lanes * scratch_entries);
  }
  [[nodiscard]] bool parallel() const noexcept { return lanes > 1; }
  [[nodiscard]] T* scratch_of(std::int64_t slab) const noexcept {
    return scratch + (parallel() ? slab * scratch_entries : 0);
  }
  template <class Task>
  void run(Executor& executor, Task& task) const {
    if (parallel()) {
      executor.run(slabs.count, task);
    } else {
      for (std::int64_t slab = 0; slab < slabs.count; ++slab) task(slab);
    }
  }
};

}  // namespace

template <class T>
void run_pass(const Rows& G, const PassColumns<T>& columns, const PassResult<T>& result, Arena& arena,
              Executor& executor) {
  const std::int64_t k = columns.k;
  const std::int64_t share = k * padded(G.cols());
  std::fill(result.Zt, result.Zt + share, T{0});
  std::fill(result.sums, result.sums + result.count(), 0.0);
  if (G.rows() == 0) return;
  const PassMemory<T> memory(G, k, false, arena, executor);
  std::fill(memory.slab_sums, memory.slab_sums + memory.slabs.count * memory.sums, 0.0);
  auto slab_task = [&](std::int64_t slab) {
    PassResult<T> part = result;
    part.Zt = slab == 0 ? result.Zt : memory.shares + (memory.parallel() ? slab * share : 0);
    part.sums = memory.slab_sums + slab * memory.sums;
    if (slab > 0) std::fill(part.Zt, part.Zt + share, T{0});
    T* scratch = memory.scratch_of(slab);
    T* converted = scratch + padded(kernels::fused_pass_scratch<T>(k));
    part.norm_squared() =
        over_rows<T, false>(G, memory.slabs.begin(slab), memory.slabs.size(slab), converted,
                            [&](const T* rows, std::int64_t count, std::int64_t stride) {
                              return kernels::fused_pass(kernels::FusedPass<T>{
                                  rows, count, G.cols(), stride, columns.Vt, k, part.Zt, part.S(), scratch});
                            });
    if (!memory.parallel() && slab > 0) kernels::add_inplace(result.Zt, part.Zt, share);
  };
  memory.run(executor, slab_task);
  for (std::int64_t slab = 0; slab < memory.slabs.count; ++slab) {  // always in this order
    if (memory.parallel() && slab > 0) kernels::add_inplace(result.Zt, memory.shares + slab * share, share);
    kernels::add_inplace(result.sums, memory.slab_sums + slab * memory.sums, memory.sums);
  }
}

template <class T>
double run_update(const Rows& G, const T* Vt, std::int64_t c, const T* coefficient, Arena& arena, Executor& executor) {
  if (G.rows() == 0) return 0;
  const PassMemory<T> memory(G, c, true, arena, executor);
  auto slab_task = [&](std::int64_t slab) {
    T* scratch = memory.scratch_of(slab);
    T* converted = scratch + padded(kernels::fused_pass_scratch<T>(c));
    memory.slab_sums[slab] = over_rows<T, true>(G, memory.slabs.begin(slab), memory.slabs.size(slab), converted,
                                                [&](T* rows, std::int64_t count, std::int64_t stride) {
                                                  return kernels::apply_right(kernels::RightUpdate<T>{
                                                      rows, count, G.cols(), stride, Vt, c, coefficient, scratch});
                                                });
  };
  memory.run(executor, slab_task);
  double norm_squared = 0;
  for (std::int64_t slab = 0; slab < memory.slabs.count; ++slab) norm_squared += memory.slab_sums[slab];
  return norm_squared;
}

template void run_pass(const Rows&, const PassColumns<float>&, const PassResult<float>&, Arena&, Executor&);
template void run_pass(const Rows&, const PassColumns<double>&, const PassResult<double>&, Arena&, Executor&);
template double run_update(const Rows&, const float*, std::int64_t, const float*, Arena&, Executor&);
template double run_update(const Rows&, const double*, std::int64_t, const double*, Arena&, Executor&);

}  // namespace spectralclip

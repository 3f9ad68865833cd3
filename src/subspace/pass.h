// SPDX-License-Identifier: Apache-2.0
// The fused pass and the update over a whole matrix of any storage type: slabs over threads, 16-bit rows converted
// block by block. T is the work type (float, or double for float64 storage).
#pragma once

#include <cstdint>

#include "kernels/fused_pass.h"
#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "subspace/slabs.h"
#include "subspace/workspace.h"

namespace spectralclip {

// Memory of one pass with k columns, cut from a workspace.
template <class T>
struct PassBuffers {
  Slabs slabs;
  std::int64_t k = 0;
  std::int64_t lanes = 1;   // slabs that may be under way at once
  std::int64_t share = 0;   // entries of one slab's share of Zt
  T* shares = nullptr;      // (lanes) x share
  double* grams = nullptr;  // (slabs.count) x k x k
  double* norms = nullptr;  // slabs.count
  T* scratch = nullptr;     // lanes x scratch_entries
  std::int64_t scratch_entries = 0;

  static PassBuffers plan(const AnyMatrix& G, std::int64_t k, const Executor& executor);
  [[nodiscard]] std::size_t bytes() const noexcept;
  void grant(Workspace& workspace) noexcept;
  void narrow(std::int64_t columns, std::int64_t padded_cols) noexcept {  // the same memory for fewer columns
    k = columns;
    share = columns * padded_cols;
  }
};

// Zt (k x padded(cols)) = (G^T G V)^T, S (k x k) = (G V)^T (G V); returns ||G||_F^2.
template <class T>
double run_pass(const AnyMatrix& G, const T* Vt, T* Zt, double* S, const PassBuffers<T>& buffers, Executor& executor);

// G <- G - (G V) diag(coefficient) V^T with c <= k columns; returns the new ||G||_F^2.
template <class T>
double run_update(const AnyMatrix& G, const T* Vt, std::int64_t c, const T* coefficient, const PassBuffers<T>& buffers,
                  Executor& executor);

}  // namespace spectralclip

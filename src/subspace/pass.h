// SPDX-License-Identifier: Apache-2.0
// One read of a matrix (or of this rank's rows of it) and one update of it: slabs over threads, 16-bit rows converted
// block by block. T is the work type (float, or double for float64 storage). Everything a pass returns is a sum over
// rows, so that slabs, threads and ranks add up.
#pragma once

#include <cstdint>

#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "subspace/slabs.h"
#include "subspace/work_rows.h"
#include "subspace/workspace.h"

namespace spectralclip {

// What to multiply by: k rows of Vt (k even), padded(cols) apart.
template <class T>
struct PassColumns {
  const T* Vt = nullptr;
  std::int64_t k = 0;
};

// What comes back. Zt = (G^T G V)^T and `sums`, both plain arrays, so that a reduction adds them over ranks as they
// are.
template <class T>
struct PassResult {
  T* Zt = nullptr;  // k x padded(cols)
  double* sums = nullptr;
  std::int64_t k = 0;

  [[nodiscard]] static constexpr std::int64_t sums_of(std::int64_t k) noexcept { return 1 + k * k; }
  [[nodiscard]] std::int64_t count() const noexcept { return sums_of(k); }
  [[nodiscard]] double& norm_squared() const noexcept { return sums[0]; }  // ||G||_F^2
  [[nodiscard]] double* S() const noexcept { return sums + 1; }            // k x k: (G V)^T (G V)
};

// Fills the result for the rows of G; without rows everything is zero. 4 m n k flops, one read.
template <class T>
void run_pass(const Rows& G, const PassColumns<T>& columns, const PassResult<T>& result, Arena& memory,
              Executor& executor);

// G <- G - (G V) diag(coefficient) V^T with c columns; returns the new ||G||_F^2 of these rows.
template <class T>
double run_update(const Rows& G, const T* Vt, std::int64_t c, const T* coefficient, Arena& memory, Executor& executor);

}  // namespace spectralclip

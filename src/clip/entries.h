// SPDX-License-Identifier: Apache-2.0
// Whole-matrix facts and edits that need no factorisation, for every storage type and row stride.
#pragma once

#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

// Largest |entry|; NaN when an entry is NaN or infinite.
[[nodiscard]] double max_abs_entry(const AnyMatrix& G);

void fill_zero(const AnyMatrix& G);

// ||G||_F^2 over slabs, equal bits for any number of threads. NaN when an entry is not finite; never overflows for
// finite 16- and 32-bit entries, and for float64 only where the norm itself would.
[[nodiscard]] double sum_of_squares(const AnyMatrix& G, Executor& executor);

// G *= factor; returns nothing, reads and writes each entry once.
void scale_entries(const AnyMatrix& G, double factor, Executor& executor);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// What the methods cost, as a model of shape and columns: measured once (bench_clip --only cost prints both sides), good
// to a factor of two, which is all that a choice between them needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "subspace/state.h"

namespace spectralclip {

// Microseconds of one pass with k columns: 4 m n k flops at 30 GF/s, the read, and the k x k work.
[[nodiscard]] constexpr double pass_cost(std::int64_t rows, std::int64_t cols, std::int64_t k) noexcept {
  const double entries = static_cast<double>(rows) * static_cast<double>(cols);
  return entries * (2e-4 + 1.3e-4 * static_cast<double>(k)) + 20 + 5e-3 * static_cast<double>(cols * k);
}

// Microseconds of `gram`: m n r for the smaller Gram matrix, 4/3 r^3 for its eigenvalues (memory-bound), and lowering.
[[nodiscard]] constexpr double gram_cost(std::int64_t rows, std::int64_t cols) noexcept {
  const double r = static_cast<double>(std::min(rows, cols));
  const double entries = static_cast<double>(rows) * static_cast<double>(cols);
  return 10 + entries * r * 1.5e-4 + r * r * (0.02 + r * 7e-4);
}

inline constexpr std::int64_t kTypicalColumns = 8;

// A search that has cost as much as `gram` would have ends there: at most twice the cheaper of both.
[[nodiscard]] constexpr int passes_worth_gram(std::int64_t rows, std::int64_t cols) noexcept {
  const double passes = gram_cost(rows, cols) / pass_cost(rows, cols, kTypicalColumns);
  return static_cast<int>(std::clamp(passes, 2.0, 64.0));
}

// `auto` and `tracked`: gram where it costs no more than the two passes and the update that a clip takes at least, or,
// after steps in which many directions were clipped, than passes of their width.
[[nodiscard]] inline Method choose_method(const ClipOptions& options, const AnyMatrix& G, const SubspaceState& state) {
  if (options.method != Method::automatic && options.method != Method::tracked) return options.method;
  if (options.rank) return Method::tracked;
  const std::int64_t width = std::max(kTypicalColumns, 2 * state.clipped_lately);
  const double search = 3 * pass_cost(G.rows, G.cols, width);
  return gram_cost(G.rows, G.cols) <= search ? Method::gram : Method::tracked;
}

}  // namespace spectralclip

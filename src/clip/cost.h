// SPDX-License-Identifier: Apache-2.0
// What the methods cost beside each other (bench_clip --only cost prints model and measurement), and what follows:
// which one `auto` takes, and how long a search that may end in `gram` goes on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "subspace/cost.h"
#include "subspace/state.h"

namespace spectralclip {

// Microseconds of `gram`: m n r for the smaller Gram matrix in float64, its eigenpairs, and lowering.
[[nodiscard]] constexpr double gram_cost(std::int64_t rows, std::int64_t cols) noexcept {
  const double r = static_cast<double>(std::min(rows, cols));
  const double entries = static_cast<double>(rows) * static_cast<double>(cols);
  return 10 + entries * r * 1.5e-4 + r * r * (0.035 + r * 2e-4);
}

// A search that may end in `gram` goes on until it has cost as much: at most about twice the cheaper of both. Until
// then neither its reads nor, up to this width, its columns are limited.
[[nodiscard]] inline std::int64_t widest_worth_gram(std::int64_t rows, std::int64_t cols) noexcept {
  constexpr std::int64_t kWidest = 512;
  const double most = gram_cost(rows, cols) / 4;
  std::int64_t k = kTypicalColumns;
  while (2 * k <= std::min({rows, cols, kWidest}) && ritz_cost(cols, 2 * k) <= most) k *= 2;
  return k;
}

// `auto` and `tracked`: gram where it costs no more than the two passes and the update that a clip takes at least, or,
// after steps in which many directions were clipped, than passes of their width.
[[nodiscard]] inline Method choose_method(const ClipOptions& options, const AnyMatrix& G, const SubspaceState& state) {
  if (options.method != Method::automatic && options.method != Method::tracked) return options.method;
  if (options.rank) return Method::tracked;
  const std::int64_t width = std::max(kTypicalColumns, 2 * state.clipped_lately);
  const double search = 3 * pass_cost(G.rows, G.cols, width) + 2 * ritz_cost(G.cols, width);
  return gram_cost(G.rows, G.cols) <= search ? Method::gram : Method::tracked;
}

}  // namespace spectralclip

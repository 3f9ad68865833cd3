// SPDX-License-Identifier: Apache-2.0
// What a search costs, as a model of shape and columns: measured once on AVX-512 (bench_clip --only cost prints both
// sides; AVX2 takes up to 1.5 times as long), good to a factor of two, which is all that a choice needs. Being a
// function of shapes alone it gives the same answer on every machine, thread and rank.
#pragma once

#include <cstdint>

namespace spectralclip {

inline constexpr std::int64_t kTypicalColumns = 8;

// Microseconds of one pass with k columns: 4 m n k flops, the read, and what a call costs at all.
[[nodiscard]] constexpr double pass_cost(std::int64_t rows, std::int64_t cols, std::int64_t k) noexcept {
  const double entries = static_cast<double>(rows) * static_cast<double>(cols);
  return entries * (1e-4 + 3e-5 * static_cast<double>(k)) + 10;
}

// Microseconds of the analysis after a pass: products of k rows with the new ones, and the k x k problem.
[[nodiscard]] constexpr double ritz_cost(std::int64_t cols, std::int64_t k) noexcept {
  const double width = static_cast<double>(k);
  return width * (2e-3 * static_cast<double>(cols) + 2e-3 * width * width);
}

}  // namespace spectralclip

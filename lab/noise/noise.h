// SPDX-License-Identifier: Apache-2.0
// What the studies add to a gradient matrix before it is clipped. Every kind is symmetric about zero, so a noisy
// gradient stays unbiased wherever the mean exists.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"
#include "noise/draws.h"
#include "spectralclip/matrix.h"

namespace spectralclip::lab {

enum class NoiseKind : std::uint8_t {
  none = 0,
  gaussian = 1,       // dense: independent N(0, scale^2) entries
  pareto = 2,         // dense: independent two-sided Pareto(scale, alpha) entries
  rank_gaussian = 3,  // sum of `rank` terms s u v^T with s from N(0, scale^2) …
  rank_pareto = 4     // … or two-sided Pareto(scale, alpha); u, v: directions of Gaussian vectors
};
[[nodiscard]] NoiseKind parse_noise_kind(const std::string& name);  // throws InvalidArgument listing the names

// Throws InvalidArgument naming the key, its value and its range.
void validate(const NoiseConfig& config);

// Whether the gradients of this step are hit: decided once per step for all layers, as published.
[[nodiscard]] bool noise_hits(const NoiseConfig& config, std::uint64_t seed, std::int64_t step);

// G += noise, whatever `probability` says. A vector is m x 1. The rank is at most min(rows, cols).
// Cost: about 20 ns an entry when dense, rows + cols draws and rows * cols products a term otherwise.
void add_noise(MatrixView<float> G, const NoiseConfig& config, Draws& draws);
void add_noise(MatrixView<double> G, const NoiseConfig& config, Draws& draws);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
#include "noise/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "require.h"

namespace spectralclip::lab {
namespace {

constexpr std::array<const char*, 5> kNames = {"none", "gaussian", "pareto", "rank_gaussian", "rank_pareto"};

template <class T, class Draw>
void add_dense(MatrixView<T> G, Draw&& draw) {
  for (std::int64_t i = 0; i < G.rows; ++i) {
    T* row = G.row(i);
    for (std::int64_t j = 0; j < G.cols; ++j) row[j] += static_cast<T>(draw());
  }
}

void fill_direction(std::span<double> out, Draws& draws) {
  draws.fill_normal(out);
  double squares = 0;
  for (const double x : out) squares += x * x;
  const double inverse = 1 / std::sqrt(squares);
  for (double& x : out) x *= inverse;
}

template <class T>
void add_outer(MatrixView<T> G, double s, std::span<const double> u, std::span<const double> v) {
  for (std::int64_t i = 0; i < G.rows; ++i) {
    const double factor = s * u[static_cast<std::size_t>(i)];
    T* row = G.row(i);
    for (std::int64_t j = 0; j < G.cols; ++j) row[j] += static_cast<T>(factor * v[static_cast<std::size_t>(j)]);
  }
}

template <class T, class Draw>
void add_terms(MatrixView<T> G, std::int64_t rank, Draws& draws, Draw&& draw) {
  std::vector<double> directions(static_cast<std::size_t>(G.rows + G.cols));
  const std::span<double> u = std::span(directions).first(static_cast<std::size_t>(G.rows));
  const std::span<double> v = std::span(directions).last(static_cast<std::size_t>(G.cols));
  const std::int64_t terms = std::min({rank, G.rows, G.cols});
  for (std::int64_t term = 0; term < terms; ++term) {
    const double s = draw();
    fill_direction(u, draws);
    fill_direction(v, draws);
    add_outer(G, s, u, v);
  }
}

template <class T>
void add(MatrixView<T> G, const NoiseConfig& config, Draws& draws) {
  const auto gaussian = [&] { return config.scale * draws.normal(); };
  const auto pareto = [&] { return draws.two_sided_pareto(config.scale, config.alpha); };
  switch (parse_noise_kind(config.kind)) {
    case NoiseKind::none:
      return;
    case NoiseKind::gaussian:
      return add_dense(G, gaussian);
    case NoiseKind::pareto:
      return add_dense(G, pareto);
    case NoiseKind::rank_gaussian:
      return add_terms(G, config.rank, draws, gaussian);
    case NoiseKind::rank_pareto:
      return add_terms(G, config.rank, draws, pareto);
  }
}

}  // namespace

NoiseKind parse_noise_kind(const std::string& name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  SPECTRALCLIP_REQUIRE(found != kNames.end(), "noise kind \"", name,
                       "\" is none of none, gaussian, pareto, rank_gaussian, rank_pareto");
  return static_cast<NoiseKind>(found - kNames.begin());
}

void validate(const NoiseConfig& config) {
  (void)parse_noise_kind(config.kind);
  SPECTRALCLIP_REQUIRE(config.probability >= 0 && config.probability <= 1, "noise.probability = ", config.probability,
                       " is not in [0, 1]");
  SPECTRALCLIP_REQUIRE(std::isfinite(config.scale) && config.scale >= 0, "noise.scale = ", config.scale,
                       " is not a finite number >= 0");
  SPECTRALCLIP_REQUIRE(config.alpha > 0, "noise.alpha = ", config.alpha, " is not above 0");
  SPECTRALCLIP_REQUIRE(config.rank >= 1, "noise.rank = ", config.rank, " is below 1");
}

bool noise_hits(const NoiseConfig& config, std::uint64_t seed, std::int64_t step) {
  if (parse_noise_kind(config.kind) == NoiseKind::none) return false;
  return Draws(seed, "noise.hits", step).uniform() < config.probability;
}

void add_noise(MatrixView<float> G, const NoiseConfig& config, Draws& draws) { add(G, config, draws); }
void add_noise(MatrixView<double> G, const NoiseConfig& config, Draws& draws) { add(G, config, draws); }

}  // namespace spectralclip::lab

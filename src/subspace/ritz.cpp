// SPDX-License-Identifier: Apache-2.0
#include "subspace/ritz.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "factor/small_eigen.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kSquares = 9;  // S, T, N, P, mix and four of scratch
constexpr double kDropDouble = 1e-13;
// Rounding of a difference of two numbers near one: a squared sine below it cannot be told from zero, nor trusted to
// be.
constexpr double kSineResolution = 4 * std::numeric_limits<double>::epsilon();

// x^T A y for k x k A.
double bilinear(const double* x, const double* A, const double* y, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    double row = 0;
    for (std::int64_t j = 0; j < k; ++j) row += A[i * k + j] * y[j];
    sum += x[i] * row;
  }
  return sum;
}

}  // namespace

std::size_t Ritz::bytes(std::int64_t k) noexcept {
  return kSquares * Workspace::padded_bytes<double>(k * k) + 4 * Workspace::padded_bytes<double>(k);
}

Ritz Ritz::grant(Workspace& workspace, std::int64_t k) noexcept {
  Ritz r;
  r.k = k;
  r.sigma = workspace.take<double>(k);
  r.sine = workspace.take<double>(k);
  r.previous = workspace.take<double>(k);
  r.probe = workspace.take<double>(k);
  std::fill(r.sigma, r.sigma + k, 0.0);
  r.mix = workspace.take<double>(k * k);
  r.S = workspace.take<double>(k * k);
  r.T = workspace.take<double>(k * k);
  r.N = workspace.take<double>(k * k);
  r.P = workspace.take<double>(k * k);
  r.scratch = workspace.take<double>(4 * k * k);
  return r;
}

void solve_ritz(Ritz& r, double drop) {
  const std::int64_t k = r.k;
  const std::int64_t square = k * k;
  double* factor = r.scratch;
  double* inverse = r.scratch + square;  // L^-1
  double* C = r.scratch + 2 * square;    // B B^T
  double* vectors = r.scratch + 3 * square;
  std::copy(r.sigma, r.sigma + k, r.previous);
  const Independence independence = inverse_cholesky(r.S, k, drop, factor, inverse);
  r.independent = independence.columns;
  r.weakest = independence.weakest;
  congruence(inverse, r.T, k, factor, C);
  symmetric_eigen(C, k, r.sigma, vectors);
  for (std::int64_t i = 0; i < k; ++i) {
    r.sigma[i] = i < r.independent ? std::sqrt(std::max(r.sigma[i], 0.0)) : 0.0;
    const double scale = r.sigma[i] > 0 ? 1 / r.sigma[i] : 0.0;
    for (std::int64_t j = 0; j < k; ++j) {
      double sum = 0;
      for (std::int64_t l = j; l < k; ++l) sum += vectors[i * k + l] * inverse[l * k + j];
      r.mix[i * k + j] = scale * sum;
    }
  }
}

void solve_sines(Ritz& r, std::int64_t count) {
  const std::int64_t k = r.k;
  double* factor = r.scratch;
  double* inverse = r.scratch + k * k;
  double* projected = r.scratch + 2 * k * k;
  inverse_cholesky(r.N, k, kDropDouble, factor, inverse);
  for (std::int64_t i = 0; i < count; ++i) {
    const double* mix = r.mix + i * k;
    for (std::int64_t a = 0; a < k; ++a) {
      double sum = 0;
      for (std::int64_t b = 0; b < k; ++b) sum += r.P[a * k + b] * mix[b];
      projected[a] = sum;  // V^T v_i
    }
    double inside = 0;
    for (std::int64_t a = 0; a < k; ++a) {
      double sum = 0;
      for (std::int64_t b = 0; b <= a; ++b) sum += inverse[a * k + b] * projected[b];
      inside += sum * sum;
    }
    const double length = bilinear(mix, r.T, mix, k);  // one, up to rounding
    r.sine[i] = std::sqrt(std::clamp(length - inside, kSineResolution, 1.0));
  }
}

void probe_fresh_columns(Ritz& r, std::int64_t kept, double drop) {
  const std::int64_t k = r.k;
  const std::int64_t fresh = k - kept;
  double* factor = r.scratch;
  double* inverse = r.scratch + k * k;
  double* X = r.scratch + 2 * k * k;  // kept x fresh: S_pp^-1 S_pf
  double* K = r.scratch + 3 * k * k;  // fresh x fresh, then values and vectors behind it
  // The leading block of a Cholesky factor is the factor of the leading block.
  inverse_cholesky(r.S, k, drop, factor, inverse);
  for (std::int64_t f = 0; f < fresh; ++f) {
    for (std::int64_t a = 0; a < kept; ++a) {
      double sum = 0;  // Y = L^-1 S_pf, stored in the factor's upper part, which is not needed any more
      for (std::int64_t b = 0; b <= a; ++b) sum += inverse[a * k + b] * r.S[b * k + kept + f];
      factor[a * k + kept + f] = sum;
    }
    for (std::int64_t a = 0; a < kept; ++a) {
      double sum = 0;
      for (std::int64_t b = a; b < kept; ++b) sum += inverse[b * k + a] * factor[b * k + kept + f];
      X[a * fresh + f] = sum;
    }
  }
  auto deflated = [&](std::int64_t a, std::int64_t f) {  // Z_a^T (Z_f - Z_p X_f), a any of the k rows
    double sum = r.T[a * k + kept + f];
    for (std::int64_t b = 0; b < kept; ++b) sum -= r.T[a * k + b] * X[b * fresh + f];
    return sum;
  };
  for (std::int64_t e = 0; e < fresh; ++e) {
    for (std::int64_t f = 0; f < fresh; ++f) {
      double sum = deflated(kept + e, f);
      for (std::int64_t a = 0; a < kept; ++a) sum -= X[a * fresh + e] * deflated(a, f);
      K[e * fresh + f] = sum;
    }
  }
  double* vectors = inverse;
  for (std::int64_t e = 0; e < fresh; ++e) {
    for (std::int64_t f = 0; f < e; ++f)
      K[e * fresh + f] = K[f * fresh + e] = (K[e * fresh + f] + K[f * fresh + e]) / 2;
  }
  symmetric_eigen(K, fresh, r.probe, vectors);
  for (std::int64_t f = 0; f < fresh; ++f) r.probe[f] = std::max(r.probe[f], 0.0);
}

Turn leading_turn(Ritz& r, std::int64_t kept) {
  double* inside = r.sine;  // V_kept^T v
  double length = 0;
  for (std::int64_t a = 0; a < kept; ++a) {
    inside[a] = 0;
    for (std::int64_t b = 0; b < r.k; ++b) inside[a] += r.P[a * r.k + b] * r.mix[b];
    length += inside[a] * inside[a];
  }
  double energy = 0;  // ||G v0||^2 length
  for (std::int64_t a = 0; a < kept; ++a) {
    for (std::int64_t b = 0; b < kept; ++b) energy += inside[a] * r.S[a * r.k + b] * inside[b];
  }
  const double before = length > 0 ? energy / length : 0.0;
  return {std::clamp(1 - length, 0.0, 1.0), std::clamp(1 - before / (r.sigma[0] * r.sigma[0]), 0.0, 1.0)};
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "subspace/ritz.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "factor/small_eigen.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kSquares = 6 + Ritz::kScratch;
constexpr double kDropDouble = 1e-13;
// Rounding of a difference of two numbers near one: a squared sine below it cannot be told from zero, nor trusted to
// be.
constexpr double kSineResolution = 4 * std::numeric_limits<double>::epsilon();

void pack(const double* A, std::int64_t lda, std::int64_t k, double* packed) {
  for (std::int64_t i = 0; i < k; ++i) std::copy(A + i * lda, A + i * lda + k, packed + i * k);
}

// y = A x for the leading k x k of A.
void multiply(const double* A, std::int64_t lda, std::int64_t k, const double* x, double* y) {
  for (std::int64_t i = 0; i < k; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += A[i * lda + j] * x[j];
    y[i] = sum;
  }
}

double dot(const double* x, const double* y, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace

std::size_t Ritz::bytes(std::int64_t capacity) noexcept {
  return kSquares * Arena::padded_bytes<double>(capacity * capacity + 2) + 3 * Arena::padded_bytes<double>(capacity);
}

Ritz Ritz::grant(Arena& memory, std::int64_t capacity) noexcept {
  const std::int64_t square = capacity * capacity + 2;  // symmetric_eigen's 2 k numbers when k = 1
  Ritz r;
  r.capacity = capacity;
  r.S = memory.take<double>(square);
  r.T = memory.take<double>(square);
  r.N = memory.take<double>(square);
  r.P = memory.take<double>(square);
  r.sigma = memory.take<double>(capacity);
  r.gain = memory.take<double>(capacity);
  r.sine = memory.take<double>(capacity);
  r.mix = memory.take<double>(square);
  r.inverse = memory.take<double>(square);
  r.scratch = memory.take<double>(kScratch * square);
  return r;
}

// Rounding of an entry of S is eps |w_i| |w_1| and looks like a cosine of eps |w_1| / |w_i| between columns; below
// sqrt(drop) / 16 it does no harm.
double leave_out_short_columns(double* S, std::int64_t k, double drop, double epsilon) {
  double longest = 0;
  for (std::int64_t i = 0; i < k; ++i) longest = std::max(longest, S[i * k + i]);
  const double shortest = 16 * 16 * epsilon * epsilon / drop * longest;
  double left_out = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    if (S[i * k + i] > shortest) continue;
    left_out += S[i * k + i];
    for (std::int64_t j = 0; j < k; ++j) S[i * k + j] = S[j * k + i] = 0;
  }
  return left_out;
}

void solve_ritz(Ritz& r, double drop, double epsilon, std::int64_t tail_first) {
  const std::int64_t k = r.k;
  const std::int64_t square = k * k;
  double* packed = r.scratch;
  double* factor = r.scratch + square;
  double* C = r.scratch + 2 * square;  // B B^T
  double* vectors = r.scratch + 3 * square;
  pack(r.S, r.capacity, k, packed);
  const double left_out = leave_out_short_columns(packed, k, drop, epsilon);
  const Independence independence = inverse_cholesky(packed, k, drop, factor, r.inverse);
  r.independent = independence.columns;
  r.weakest = independence.weakest;
  r.left_out = left_out + independence.left_out;
  pack(r.T, r.capacity, k, packed);
  congruence(r.inverse, packed, k, factor, C);
  const std::int64_t rest = k - tail_first;
  for (std::int64_t i = 0; i < rest; ++i) std::copy_n(C + (tail_first + i) * k + tail_first, rest, factor + i * rest);
  if (rest > 0) symmetric_eigen(factor, rest, r.sigma, nullptr, packed);
  r.tail = rest > 0 ? std::sqrt(std::max(r.sigma[0], 0.0)) : 0.0;
  symmetric_eigen(C, k, r.sigma, vectors, packed);
  std::fill(r.mix, r.mix + square, 0.0);
  for (std::int64_t i = 0; i < k; ++i) {
    r.sigma[i] = i < r.independent ? std::sqrt(std::max(r.sigma[i], 0.0)) : 0.0;
    const double scale = r.sigma[i] > 0 ? 1 / r.sigma[i] : 0.0;
    for (std::int64_t l = 0; l < k; ++l) {
      const double weight = scale * vectors[i * k + l];
      for (std::int64_t j = 0; j <= l; ++j) r.mix[i * k + j] += weight * r.inverse[l * k + j];
    }
    double grown = 0;  // u_i = sigma_i sum_j mix_ij w_j
    for (std::int64_t j = 0; j < k; ++j) grown += r.mix[i * k + j] * r.mix[i * k + j] * r.S[j * r.capacity + j];
    r.gain[i] = r.sigma[i] * std::sqrt(grown);
  }
}

void solve_sines(Ritz& r) {
  const std::int64_t k = r.k;
  double* packed = r.scratch;
  double* factor = r.scratch + k * k;
  double* inverse = r.scratch + 2 * k * k;
  double* projected = r.scratch + 3 * k * k;  // V^T y_i
  double* product = projected + k;            // L^-1 of it, N = L L^T
  double* direction = product + k;            // N^-1 V^T y_i: what of y_i lies in span V
  pack(r.N, r.capacity, k, packed);
  for (std::int64_t i = 0; i < k; ++i) {
    if (r.inverse[i * k + i] != 0) continue;
    for (std::int64_t j = 0; j < k; ++j) packed[i * k + j] = packed[j * k + i] = 0;
  }
  inverse_cholesky(packed, k, kDropDouble, factor, inverse);
  for (std::int64_t i = 0; i < k; ++i) {
    const double* mix = r.mix + i * k;
    multiply(r.P, r.capacity, k, mix, projected);
    multiply(inverse, k, k, projected, product);
    const double inside = dot(product, product, k);
    if (i == 0) {
      for (std::int64_t a = 0; a < k; ++a) {
        direction[a] = 0;
        for (std::int64_t b = a; b < k; ++b) direction[a] += inverse[b * k + a] * product[b];
      }
      multiply(r.S, r.capacity, k, direction, product);
      const double before = inside > 0 ? dot(direction, product, k) / inside : 0.0;  // ||G v0||^2
      r.turn.gain = std::clamp(1 - before / (r.sigma[0] * r.sigma[0]), 0.0, 1.0);
    }
    multiply(r.T, r.capacity, k, mix, product);
    const double length = dot(mix, product, k);  // one, up to rounding
    r.sine[i] = std::sqrt(std::clamp(length - inside, kSineResolution, 1.0));
  }
  r.turn.sine_squared = r.sine[0] * r.sine[0];
}

double probe_largest(const Ritz& r, std::int64_t kept, const double* X, std::int64_t fresh, double drop) {
  const std::int64_t k = r.k;
  const std::int64_t count = k - kept;
  const std::int64_t square = std::max(k, fresh) * std::max(k, fresh);  // at most capacity^2
  double* packed = r.scratch;
  double* factor = r.scratch + square;
  double* inverse = r.scratch + 2 * square;
  double* Y = r.scratch + 3 * square;  // kept x count: S_pp^-1 S_pf
  // The leading block of a Cholesky factor is the factor of the leading block.
  pack(r.S, r.capacity, k, packed);
  inverse_cholesky(packed, k, drop, factor, inverse);
  for (std::int64_t f = 0; f < count; ++f) {
    double* half = factor + f * kept;  // L^-1 S_pf
    for (std::int64_t a = 0; a < kept; ++a) {
      half[a] = 0;
      for (std::int64_t b = 0; b <= a; ++b) half[a] += inverse[a * k + b] * packed[b * k + kept + f];
    }
    for (std::int64_t a = 0; a < kept; ++a) {
      double sum = 0;
      for (std::int64_t b = a; b < kept; ++b) sum += inverse[b * k + a] * half[b];
      Y[a * count + f] = sum;
    }
  }
  const auto T = [&](std::int64_t a, std::int64_t b) { return r.T[a * r.capacity + b]; };
  const auto deflated = [&](std::int64_t a, std::int64_t f) {  // Z_a^T (Z_f - Z_p Y_f), a any of the k rows
    double sum = T(a, kept + f);
    for (std::int64_t b = 0; b < kept; ++b) sum -= T(a, b) * Y[b * count + f];
    return sum;
  };
  double* K = packed;  // count x count
  for (std::int64_t f = 0; f < count; ++f) {
    double* column = factor;  // of deflated()
    for (std::int64_t a = 0; a < k; ++a) column[a] = deflated(a, f);
    for (std::int64_t e = 0; e < count; ++e) {
      double sum = column[kept + e];
      for (std::int64_t a = 0; a < kept; ++a) sum -= Y[a * count + e] * column[a];
      K[e * count + f] = sum;
    }
  }
  double* XK = factor;
  double* raw = inverse;  // X K X^T, fresh x fresh
  for (std::int64_t i = 0; i < fresh; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      XK[i * count + j] = 0;
      for (std::int64_t l = 0; l < count; ++l) XK[i * count + j] += X[i * count + l] * K[l * count + j];
    }
  }
  for (std::int64_t i = 0; i < fresh; ++i) {
    for (std::int64_t j = 0; j < fresh; ++j) raw[i * fresh + j] = dot(XK + i * count, X + j * count, count);
  }
  symmetric_eigen(raw, fresh, r.sine, nullptr, packed);  // sine is filled later
  return std::max(r.sine[0], 0.0);
}

}  // namespace spectralclip

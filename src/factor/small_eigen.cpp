// SPDX-License-Identifier: Apache-2.0
#include "factor/small_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spectralclip {
namespace {

// Rotation that zeroes A(p, q), applied to rows and columns p, q of A and to rows p, q of the vectors.
void rotate(double* A, double* vectors, std::int64_t k, std::int64_t p, std::int64_t q) {
  const double apq = A[p * k + q];
  const double theta = (A[q * k + q] - A[p * k + p]) / (2 * apq);
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::sqrt(1 + theta * theta));
  const double c = 1 / std::sqrt(1 + t * t);
  const double s = t * c;
  double* rp = A + p * k;
  double* rq = A + q * k;
  const double app = rp[p] - t * apq;
  const double aqq = rq[q] + t * apq;
  for (std::int64_t j = 0; j < k; ++j) {
    const double x = rp[j];
    const double y = rq[j];
    rp[j] = c * x - s * y;
    rq[j] = s * x + c * y;
  }
  for (std::int64_t j = 0; j < k; ++j) {
    A[j * k + p] = rp[j];
    A[j * k + q] = rq[j];
  }
  rp[p] = app;
  rq[q] = aqq;
  rp[q] = 0;
  rq[p] = 0;
  double* vp = vectors + p * k;
  double* vq = vectors + q * k;
  for (std::int64_t j = 0; j < k; ++j) {
    const double x = vp[j];
    const double y = vq[j];
    vp[j] = c * x - s * y;
    vq[j] = s * x + c * y;
  }
}

// Off-diagonal entries count relative to their own diagonal: that is what keeps small eigenvalues accurate.
bool negligible(const double* A, std::int64_t k, std::int64_t p, std::int64_t q) {
  const double scale = std::sqrt(std::abs(A[p * k + p])) * std::sqrt(std::abs(A[q * k + q]));
  return std::abs(A[p * k + q]) <= std::numeric_limits<double>::epsilon() * scale ||
         std::abs(A[p * k + q]) < std::numeric_limits<double>::min();
}

void sort_descending(double* values, double* vectors, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t best = std::max_element(values + i, values + k) - values;
    if (best == i) continue;
    std::swap(values[i], values[best]);
    std::swap_ranges(vectors + i * k, vectors + (i + 1) * k, vectors + best * k);
  }
}

}  // namespace

void symmetric_eigen(double* A, std::int64_t k, double* values, double* vectors) {
  std::fill(vectors, vectors + k * k, 0.0);
  for (std::int64_t i = 0; i < k; ++i) vectors[i * k + i] = 1;
  constexpr int kMaxSweeps = 30;  // quadratic convergence: 5 to 8 are used
  bool rotated = true;
  for (int sweep = 0; sweep < kMaxSweeps && rotated; ++sweep) {
    rotated = false;
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t q = p + 1; q < k; ++q) {
        if (negligible(A, k, p, q)) continue;
        rotate(A, vectors, k, p, q);
        rotated = true;
      }
    }
  }
  for (std::int64_t i = 0; i < k; ++i) values[i] = A[i * k + i];
  sort_descending(values, vectors, k);
}

Independence inverse_cholesky(const double* A, std::int64_t k, double drop, double* factor, double* inverse) {
  std::fill(factor, factor + k * k, 0.0);
  std::fill(inverse, inverse + k * k, 0.0);
  Independence independence;
  for (std::int64_t i = 0; i < k; ++i) {
    double* row = factor + i * k;
    double pivot = A[i * k + i];
    for (std::int64_t j = 0; j < i; ++j) {
      const double diagonal = factor[j * k + j];
      if (diagonal == 0) continue;
      double sum = A[i * k + j];
      for (std::int64_t l = 0; l < j; ++l) sum -= row[l] * factor[j * k + l];
      row[j] = sum / diagonal;
      pivot -= row[j] * row[j];
    }
    if (!(pivot > drop * A[i * k + i])) {
      std::fill(row, row + i, 0.0);
      continue;
    }
    ++independence.columns;
    independence.weakest = std::min(independence.weakest, pivot / A[i * k + i]);
    row[i] = std::sqrt(pivot);
    double* out = inverse + i * k;  // forward substitution, one row of L^-1 at a time
    for (std::int64_t j = 0; j < i; ++j) {
      for (std::int64_t l = 0; l <= j; ++l) out[l] -= row[j] * inverse[j * k + l];
    }
    for (std::int64_t l = 0; l < i; ++l) out[l] /= row[i];
    out[i] = 1 / row[i];
  }
  return independence;
}

void congruence(const double* X, const double* A, std::int64_t k, double* scratch, double* C) {
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l <= i; ++l) sum += X[i * k + l] * A[l * k + j];
      scratch[i * k + j] = sum;
    }
  }
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l <= j; ++l) sum += scratch[i * k + l] * X[j * k + l];
      C[i * k + j] = sum;
      C[j * k + i] = sum;
    }
  }
}

}  // namespace spectralclip

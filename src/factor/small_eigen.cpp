// SPDX-License-Identifier: Apache-2.0
#include "factor/small_eigen.h"

#include <algorithm>
#include <cmath>
#include <functional>
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
  if (vectors == nullptr) return std::sort(values, values + k, std::greater<>());
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t best = std::max_element(values + i, values + k) - values;
    if (best == i) continue;
    std::swap(values[i], values[best]);
    std::swap_ranges(vectors + i * k, vectors + (i + 1) * k, vectors + best * k);
  }
}

void jacobi_eigen(double* A, std::int64_t k, double* values, double* vectors) {
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
}

// y <- A x over the trailing rows and columns [first, k); sums run over rows, so that they stay vector code.
void trailing_product(const double* A, std::int64_t k, std::int64_t first, const double* x, double* y) {
  std::fill(y + first, y + k, 0.0);
  for (std::int64_t i = first; i < k; ++i) {
    for (std::int64_t j = first; j < k; ++j) y[j] += x[i] * A[i * k + j];
  }
}

// A -> tridiagonal (diagonal d, below it e) by reflections I - 2 v v^T. Column j of A keeps the unit v that cleared it
// below the subdiagonal, as row j from j + 1 on. w: k numbers.
void tridiagonalize(double* A, std::int64_t k, double* d, double* e, double* w) {
  for (std::int64_t j = 0; j + 1 < k; ++j) {
    double* v = A + j * k;  // row j equals column j: A is symmetric
    d[j] = v[j];
    double tail = 0;
    for (std::int64_t i = j + 2; i < k; ++i) tail += v[i] * v[i];
    const double head = v[j + 1];
    const double length = std::sqrt(head * head + tail);
    if (tail == 0) {
      e[j] = head;
      std::fill(v + j + 1, v + k, 0.0);
      continue;
    }
    e[j] = head > 0 ? -length : length;
    v[j + 1] = head - e[j];
    const double scale = 1 / std::sqrt(v[j + 1] * v[j + 1] + tail);
    for (std::int64_t i = j + 1; i < k; ++i) v[i] *= scale;
    trailing_product(A, k, j + 1, v, w);
    double along = 0;
    for (std::int64_t i = j + 1; i < k; ++i) along += v[i] * w[i];
    for (std::int64_t i = j + 1; i < k; ++i) w[i] = 2 * (w[i] - along * v[i]);
    for (std::int64_t i = j + 1; i < k; ++i) {
      double* row = A + i * k;
      for (std::int64_t l = j + 1; l < k; ++l) row[l] -= v[i] * w[l] + w[i] * v[l];
    }
  }
  d[k - 1] = A[k * k - 1];
  e[k - 1] = 0;
}

// vectors = Q^T for A = Q T Q^T: the reflections in turn, last first, from the right. Columns of Q^T are touched from
// j + 1 on only, so Q itself is built in place, as the transpose of what rows would need, and turned over at the end.
void accumulate_reflections(const double* A, std::int64_t k, double* vectors, double* w) {
  std::fill(vectors, vectors + k * k, 0.0);
  for (std::int64_t i = 0; i < k; ++i) vectors[i * k + i] = 1;
  for (std::int64_t j = k - 2; j >= 0; --j) {  // Q <- (I - 2 v v^T) Q
    const double* v = A + j * k;
    std::fill(w + j + 1, w + k, 0.0);
    for (std::int64_t i = j + 1; i < k; ++i) {
      for (std::int64_t l = j + 1; l < k; ++l) w[l] += v[i] * vectors[i * k + l];
    }
    for (std::int64_t i = j + 1; i < k; ++i) {
      for (std::int64_t l = j + 1; l < k; ++l) vectors[i * k + l] -= 2 * v[i] * w[l];
    }
  }
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t l = 0; l < i; ++l) std::swap(vectors[i * k + l], vectors[l * k + i]);
  }
}

// One implicit QL sweep on the block [l, m] of the tridiagonal form; rows of `vectors` turn along when there are any.
void ql_sweep(double* d, double* e, std::int64_t l, std::int64_t m, double* vectors, std::int64_t k) {
  double g = (d[l + 1] - d[l]) / (2 * e[l]);
  g = d[m] - d[l] + e[l] / (g + std::copysign(std::sqrt(g * g + 1), g));
  double s = 1;
  double c = 1;
  double p = 0;
  for (std::int64_t i = m - 1; i >= l; --i) {
    const double f = s * e[i];
    const double b = c * e[i];
    const double r = std::sqrt(f * f + g * g);
    e[i + 1] = r;
    if (r == 0) {
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    const double q = (d[i] - g) * s + 2 * c * b;
    p = s * q;
    d[i + 1] = g + p;
    g = c * q - b;
    if (vectors == nullptr) continue;
    double* low = vectors + i * k;
    double* high = low + k;
    for (std::int64_t j = 0; j < k; ++j) {
      const double x = high[j];
      high[j] = s * low[j] + c * x;
      low[j] = c * low[j] - s * x;
    }
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

void ql_eigen(double* d, double* e, std::int64_t k, double* vectors) {
  constexpr int kMaxSweeps = 64;  // about two a value are used
  for (std::int64_t l = 0; l < k; ++l) {
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      std::int64_t m = l;
      for (; m + 1 < k; ++m) {
        const double size = std::abs(d[m]) + std::abs(d[m + 1]);
        if (std::abs(e[m]) <= std::numeric_limits<double>::epsilon() * size) break;
      }
      if (m == l) break;
      ql_sweep(d, e, l, m, vectors, k);
    }
  }
}

}  // namespace

void symmetric_eigen(double* A, std::int64_t k, double* values, double* vectors, double* work) {
  if (k <= kJacobiSide && vectors != nullptr) {
    jacobi_eigen(A, k, values, vectors);
  } else {
    double* below = work;
    double trace = 0;  // divided out, so that squares neither overflow nor vanish
    for (std::int64_t i = 0; i < k; ++i) trace += std::abs(A[i * k + i]);
    const double unit = trace > 0 ? trace : 1.0;
    for (std::int64_t i = 0; i < k * k; ++i) A[i] /= unit;
    tridiagonalize(A, k, values, below, work + k);
    if (vectors != nullptr) accumulate_reflections(A, k, vectors, work + k);
    ql_eigen(values, below, k, vectors);
    for (std::int64_t i = 0; i < k; ++i) values[i] *= unit;
  }
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
    double* out = inverse + i * k;
    if (!(pivot > drop * A[i * k + i])) {
      std::fill(row, row + i, 0.0);
      independence.left_out += std::max(pivot, 0.0);
      continue;
    }
    row[i] = std::sqrt(pivot);
    for (std::int64_t j = 0; j < i; ++j) {  // forward substitution, one row of L^-1 at a time
      for (std::int64_t l = 0; l <= j; ++l) out[l] -= row[j] * inverse[j * k + l];
    }
    for (std::int64_t l = 0; l < i; ++l) out[l] /= row[i];
    out[i] = 1 / row[i];
    double amplified = 0;
    for (std::int64_t l = 0; l <= i; ++l) amplified += out[l] * out[l] * A[l * k + l];
    if (drop * amplified > 1) {
      std::fill(row, row + i + 1, 0.0);
      std::fill(out, out + i + 1, 0.0);
      independence.left_out += pivot;
      continue;
    }
    ++independence.columns;
    independence.weakest = std::min(independence.weakest, 1 / amplified);
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

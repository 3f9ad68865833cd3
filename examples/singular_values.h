// SPDX-License-Identifier: Apache-2.0
// All singular values of a small matrix by one-sided Jacobi rotations in double: textbook, slow, and independent of the
// library whose work it is used to show.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

// Makes rows x and y (n entries) orthogonal; returns the cosine there was between them.
inline double rotate_rows(double* x, double* y, std::size_t n) {
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t j = 0; j < n; ++j) xx += x[j] * x[j], yy += y[j] * y[j], xy += x[j] * y[j];
  if (xy == 0) return 0;
  const double zeta = (yy - xx) / (2 * xy);
  const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
  const double c = 1 / std::hypot(1.0, t), s = c * t;
  for (std::size_t j = 0; j < n; ++j) {
    const double a = x[j], b = y[j];
    x[j] = c * a - s * b;
    y[j] = s * a + c * b;
  }
  return std::abs(xy) / std::sqrt(xx * yy);
}

// A: rows x cols, row-major, rows <= cols. Largest first.
inline std::vector<double> singular_values(std::vector<double> A, std::size_t rows, std::size_t cols) {
  const double close = std::sqrt(std::numeric_limits<double>::epsilon());  // values are then right to its square
  constexpr int kMaxSweeps = 30;  // ten are usual; a matrix of low rank ends here, its zeros never settle
  double worst = 1;
  for (int sweep = 0; sweep < kMaxSweeps && worst > close; ++sweep) {
    worst = 0;
    for (std::size_t p = 0; p + 1 < rows; ++p) {
      for (std::size_t q = p + 1; q < rows; ++q) {
        worst = std::max(worst, rotate_rows(&A[p * cols], &A[q * cols], cols));
      }
    }
  }
  std::vector<double> sigma(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < cols; ++j) sum += A[i * cols + j] * A[i * cols + j];
    sigma[i] = std::sqrt(sum);
  }
  std::sort(sigma.rbegin(), sigma.rend());
  return sigma;
}

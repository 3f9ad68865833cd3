// SPDX-License-Identifier: Apache-2.0
// Arithmetic on matrices as vectors, for the tests of the rates.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "studies/rates_problem.h"

namespace spectralclip::lab {

using Vector = std::vector<double>;

inline double dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
inline double norm(const Vector& a) { return std::sqrt(dot(a, a)); }
inline Vector sum_of(const Vector& a, double factor, const Vector& b) {
  Vector out = a;
  for (std::size_t i = 0; i < a.size(); ++i) out[i] += factor * b[i];
  return out;
}
inline Vector gradient_of(const RatesProblem& problem, const Vector& X) {
  Vector out(X.size()), scratch(X.size());
  const double square = problem.gradient(X, out, scratch);
  EXPECT_NEAR(square, dot(out, out), 1e-14 * square);
  return out;
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// The orthogonal polar factor of L matrices at once, by products alone: each singular value runs through a fixed chain
// of odd polynomials that ends at one. What cannot be looked at on the way (how small the smallest value is) is a
// constant: values from `lower` to 1 arrive, smaller ones end between 0 and 1, zero stays zero.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace spectralclip::torch::aten {

// x -> a x + b x^3 + c x^5
struct Quintic {
  double a, b, c;
  [[nodiscard]] double operator()(double x) const { return x * (a + x * x * (b + x * x * c)); }
};

// The odd quintic nearest to 1 on [lower, 1], divided by its largest value there. Maps (0, 1] into (0, 1].
[[nodiscard]] Quintic best_quintic(double lower);

// Polynomials whose composition maps [lower, 1] to 1 within rounding of float64: 24 for 1e-12, 31 for 1e-16.
[[nodiscard]] std::vector<Quintic> polar_chain(double lower);

// X: L x r x N, r <= N, float64, singular values at most 1. Two products of 2 r^2 N flops and one of 2 r^3 a
// polynomial.
[[nodiscard]] at::Tensor polar_factor(at::Tensor X, const std::vector<Quintic>& chain);

// Bounds low <= lambda_max <= high of positive semidefinite A (L x r x r), by repeated squaring (factor/matrix_sign.h:
// bound_largest_eigenvalue, with the number of squarings fixed). Zero for A = 0.
struct EigenvalueBounds {
  at::Tensor low;   // L
  at::Tensor high;  // L
};
[[nodiscard]] EigenvalueBounds bound_largest_eigenvalue(const at::Tensor& A);

}  // namespace spectralclip::torch::aten

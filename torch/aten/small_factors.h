// SPDX-License-Identifier: Apache-2.0
// Functions of L symmetric k x k matrices at once, in float64, by products, Cholesky factors without check and
// triangular solves: the number of operators depends on neither L nor k, and nothing is looked at. What the core takes
// from eigenpairs is here a matrix function: its projector, its inverse root, its largest value.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace spectralclip::torch::aten {

// S~ = D^-1/2 S D^-1/2 + ridge I = lower lower^T, D = diag S; inverse = lower^-1 D^-1/2, rows of zeros where S_jj = 0.
// Columns W with S = W^T W become the contraction W inverse^T; without near dependence it is orthonormal.
struct RidgeCholesky {
  at::Tensor lower;    // L x k x k
  at::Tensor root;     // L x k: D^1/2
  at::Tensor inverse;  // L x k x k
};
[[nodiscard]] RidgeCholesky ridge_cholesky(const at::Tensor& S, double ridge, const at::Tensor& identity);

// x^-1/2 on [reach^2 top, top] as the sum of terms w_j / (x + s_j) with positive w and s (Zolotarev; nodes as in Hale,
// Higham, Trefethen 2008): all of them are factored in one batch. Beyond `top` and below the interval the sum is
// smaller than x^-1/2. Relative error 4 exp(-pi^2 terms / log(4 / reach)), about.
struct InverseRoot {
  at::Tensor divisor;  // terms x 1 x 1: 1 / w
  at::Tensor shift;    // terms x k x k: s / w on the diagonal
};
[[nodiscard]] InverseRoot make_inverse_root(double reach, double top, std::int64_t terms, const at::Tensor& identity);
// X^-1/2 of positive semidefinite X (its lower triangle is read): L x k x k. Seven operators.
[[nodiscard]] at::Tensor inverse_root(const at::Tensor& X, const InverseRoot& rational);

// sign(C) for symmetric C with eigenvalues in [-1, 1]; those within `reach` (of `rational`, top = 1) of zero end
// between -1 and 1.
[[nodiscard]] at::Tensor matrix_sign(const at::Tensor& C, const InverseRoot& rational);

// low <= lambda_max <= high of positive semidefinite A, by 12 squarings: apart by a factor k^(1/4096) at most, and with
// a gap below the largest value by rounding. Zero for A = 0.
struct LargestEigenvalue {
  at::Tensor low;   // L
  at::Tensor high;  // L
};
[[nodiscard]] LargestEigenvalue largest_eigenvalue(const at::Tensor& A);

// Orthogonal X whose rows are roughly eigenvectors of positive semidefinite A, those of large values first: steps of
// the QR iteration, two Cholesky factors each. Values apart by a factor q are told apart by q^steps.
[[nodiscard]] at::Tensor leading_rows_first(const at::Tensor& A, const at::Tensor& trace, const at::Tensor& identity,
                                            int steps);

}  // namespace spectralclip::torch::aten

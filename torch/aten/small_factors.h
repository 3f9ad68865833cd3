// SPDX-License-Identifier: Apache-2.0
// Factorisations of L symmetric k x k matrices at once, in float64, by operators whose number depends on k alone:
// nothing is looked at, so nothing is waited for. What the core does by branches (factor/small_eigen.h) is done by
// masks; what it does until it converges is done a fixed number of times.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace spectralclip::torch::aten {

// A = T T^T with T lower triangular, column by column. A column whose pivot is not above drop * A_jj depends on earlier
// ones: its row of T^-1 is zero. 5 k operators.
struct InverseCholesky {
  at::Tensor inverse;      // L x k x k: T^-1
  at::Tensor independent;  // L x k, bool
  at::Tensor weakest;  // L: the inverse of the largest amplification of rounding, as in the core; 1 for a diagonal A
};
[[nodiscard]] InverseCholesky inverse_cholesky(const at::Tensor& A, double drop);

// Q = X T^-T for X^T X = T T^T: orthonormal columns in order, zero where a column of X depends on earlier ones.
struct Orthonormal {
  at::Tensor Q;     // as X: L x n x k
  at::Tensor gram;  // L x k x k: X^T X
  InverseCholesky factor;
};
[[nodiscard]] Orthonormal orthonormalize(const at::Tensor& X, double drop);

// Eigenpairs by Jacobi rotations, k/2 disjoint ones at a time in round-robin order: 17 (k - 1) operators a sweep.
struct Eigenpairs {
  at::Tensor values;   // L x k, descending
  at::Tensor vectors;  // L x k x k, columns
};
[[nodiscard]] Eigenpairs symmetric_eigen(const at::Tensor& A, std::int64_t sweeps);

// Sweeps after which what is off the diagonal is below eps of `work`, relative to the norm. Measured on random, graded,
// clustered and tied spectra of sides 8 to 32; two groups of equal eigenvalues are the slowest.
[[nodiscard]] constexpr std::int64_t sweeps_for(std::int64_t k, at::ScalarType work) {
  return work == at::kDouble ? 9 + k / 6 : 6 + k / 8;
}

// An upper bound on the largest eigenvalue of positive semidefinite K (L x f x f), above it by f^(1/64) at most: 2 %
// for f = 4, half a percent in the fourth root that the certificate takes. Twelve operators instead of a decomposition.
[[nodiscard]] at::Tensor largest_eigenvalue_bound(const at::Tensor& K);

}  // namespace spectralclip::torch::aten

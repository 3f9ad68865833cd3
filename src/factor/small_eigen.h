// SPDX-License-Identifier: Apache-2.0
// Factorisations of k x k symmetric matrices in double, k up to a few dozen, on caller's memory: nothing is allocated,
// the order of operations is fixed. Row-major, packed.
#pragma once

#include <cstdint>

namespace spectralclip {

// Eigenpairs of symmetric A (destroyed), descending. vectors: row i is the eigenvector of values[i]; null: values
// alone. Up to kJacobiSide with vectors by cyclic Jacobi rotations, which keep small eigenvalues of graded positive
// matrices to high relative accuracy (Demmel and Veselic 1992; heavy-tailed spectra are graded), at 6 k^3 multiply-adds
// a sweep and 4 to 8 sweeps; beyond by Householder reflections and implicit QL, about 5 k^3 in all and accurate to eps
// * values[0]. work: 2 k numbers.
inline constexpr std::int64_t kJacobiSide = 10;
void symmetric_eigen(double* A, std::int64_t k, double* values, double* vectors, double* work);

// inverse = L^-1 (lower triangular, k x k) for A = L L^T. A column that depends on earlier ones, so that its row of
// L^-1 would amplify relative rounding of A by more than 1 / drop, is left out: its row is zero. factor: k x k scratch.
struct Independence {
  std::int64_t columns = 0;  // how many are independent
  double left_out = 0;       // sum of the pivots of the others: squares of what they had that is new
  double weakest = 1;        // the inverse of the largest amplification among them; 1 for a diagonal A
};
Independence inverse_cholesky(const double* A, std::int64_t k, double drop, double* factor, double* inverse);

// C = X A X^T for lower triangular X. scratch: k x k.
void congruence(const double* X, const double* A, std::int64_t k, double* scratch, double* C);

}  // namespace spectralclip

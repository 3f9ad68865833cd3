// SPDX-License-Identifier: Apache-2.0
// Products between the k rows of a k x n matrix: their Gram matrix in double, and linear combinations of them.
// O(n k^2): a percent or so of a pass over G.
#pragma once

#include <cstdint>

namespace spectralclip::kernels {

// K = A A^T, k x k, products and sums in double. Rows of A are lda entries apart, zero-padded to a multiple of 16.
void gram_rows(const float* A, std::int64_t k, std::int64_t n, std::int64_t lda, double* K);
void gram_rows(const double* A, std::int64_t k, std::int64_t n, std::int64_t lda, double* K);

// K = A B^T, ka x kb, in double; rows of both lda entries apart, zero-padded likewise.
void cross_gram_rows(const float* A, std::int64_t ka, const float* B, std::int64_t kb, std::int64_t n, std::int64_t lda,
                     double* K);
void cross_gram_rows(const double* A, std::int64_t ka, const double* B, std::int64_t kb, std::int64_t n,
                     std::int64_t lda, double* K);

// out = M A: M is r x k (row-major, row stride ldm), out r x n with rows lda >= padded(n) apart like A, its padding
// included. out and A do not overlap.
void combine_rows(const double* M, std::int64_t r, std::int64_t k, std::int64_t ldm, const float* A, std::int64_t n,
                  std::int64_t lda, float* out);
void combine_rows(const double* M, std::int64_t r, std::int64_t k, std::int64_t ldm, const double* A, std::int64_t n,
                  std::int64_t lda, double* out);

// y += x over n entries.
void add_inplace(float* y, const float* x, std::int64_t n);
void add_inplace(double* y, const double* x, std::int64_t n);

}  // namespace spectralclip::kernels

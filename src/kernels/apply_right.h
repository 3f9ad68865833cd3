// SPDX-License-Identifier: Apache-2.0
// The update in place: G <- G - (G V) diag(coefficient) V^T, row by row. Because it multiplies G from the right by a
// known matrix, the product G V is taken afresh inside the same read and write of G; with coefficient 1 - tau / sigma
// this lowers each sigma to tau, and a small error of V enters squared by (sigma_next / sigma) less than through U.
#pragma once

#include <cstdint>

#include "kernels/fused_pass.h"

namespace spectralclip::kernels {

template <class T>
struct RightUpdate {
  T* G = nullptr;  // rows x cols, row-major, read and written once
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
  const T* Vt = nullptr;  // c x padded(cols), orthonormal rows
  std::int64_t c = 0;
  const T* coefficient = nullptr;  // c
  T* scratch = nullptr;            // fused_pass_scratch<T>(c) entries
};

// 4 m n c flops, one read and one write of G. Returns the sum of squares of the new G.
double apply_right(const RightUpdate<float>& update);
double apply_right(const RightUpdate<double>& update);

}  // namespace spectralclip::kernels

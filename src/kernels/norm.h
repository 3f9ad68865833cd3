// SPDX-License-Identifier: Apache-2.0
// Runs of contiguous entries: sum of squares, scaling, finiteness, largest magnitude.
#pragma once

#include <cstdint>

namespace spectralclip::kernels {

// Squares are added in T over short runs and the runs in double; not finite when an entry is not, or on overflow.
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);
[[nodiscard]] double sum_of_squares(const double* x, std::int64_t n);

void scale_inplace(float* x, std::int64_t n, float factor);
void scale_inplace(double* x, std::int64_t n, double factor);

// Largest |x|; NaN when an entry is NaN.
[[nodiscard]] double max_abs(const float* x, std::int64_t n);
[[nodiscard]] double max_abs(const double* x, std::int64_t n);

// Name of the instruction set that dispatch chose.
[[nodiscard]] const char* chosen_target() noexcept;

}  // namespace spectralclip::kernels

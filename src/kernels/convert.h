// SPDX-License-Identifier: Apache-2.0
// Runs of 16-bit floats to float32 and back, round to nearest even; scalar twins in scalar_convert.h.
#pragma once

#include <cstdint>

#include "spectralclip/matrix.h"

namespace spectralclip::kernels {

void convert(const BFloat16* from, float* to, std::int64_t n);
void convert(const Float16* from, float* to, std::int64_t n);
void convert(const float* from, BFloat16* to, std::int64_t n);
void convert(const float* from, Float16* to, std::int64_t n);

}  // namespace spectralclip::kernels

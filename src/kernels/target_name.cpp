// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"
#include "spectralclip/version.h"

namespace spectralclip {

const char* simd_target() noexcept { return kernels::chosen_target(); }

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#pragma once

#define SPECTRALCLIP_VERSION_MAJOR 0
#define SPECTRALCLIP_VERSION_MINOR 1
#define SPECTRALCLIP_VERSION_PATCH 0

namespace spectralclip {

[[nodiscard]] const char* version() noexcept;      // "0.1.0"
[[nodiscard]] const char* simd_target() noexcept;  // the instruction set the kernels chose, e.g. "AVX2"

}  // namespace spectralclip

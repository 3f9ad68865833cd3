// SPDX-License-Identifier: Apache-2.0
#pragma once

#define SPECTRALCLIP_VERSION_MAJOR 0
#define SPECTRALCLIP_VERSION_MINOR 1
#define SPECTRALCLIP_VERSION_PATCH 0

#include <string_view>

#include "spectralclip/export.h"

namespace spectralclip {

[[nodiscard]] SPECTRALCLIP_EXPORT const char* version() noexcept;  // "0.1.0"
[[nodiscard]] SPECTRALCLIP_EXPORT const char*
simd_target() noexcept;  // the instruction set the kernels chose, e.g. "AVX2"

// Makes the kernels of this process use one instruction set that was compiled in and that the processor has, by the
// name simd_target() gives it ("SCALAR", "SSE4", "AVX2", "AVX3" for AVX-512, "NEON"); empty: the widest again. Throws
// InvalidArgument, naming the choices, for any other. For benchmarks and tests; not while another thread clips.
SPECTRALCLIP_EXPORT void set_simd_target(std::string_view name);

// The same from SPECTRALCLIP_SIMD_TARGET; nothing where that is not set. The command line, the Python package and the
// tests call it when they start. The library by itself reads no environment.
SPECTRALCLIP_EXPORT void set_simd_target_from_environment();

}  // namespace spectralclip

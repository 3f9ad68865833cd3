// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for; included before any Highway header. Dropped: SSSE3 (SSE4 is as
// old), the AVX-512 sub-sets (they add nothing to multiply-adds), and sizeless vectors (SVE, RVV), because the tiles
// keep vectors in arrays; Arm uses NEON.
#pragma once

#if defined(SPECTRALCLIP_FEW_TARGETS)
// Sanitized builds: the oldest and the common set. Each further one would add a minute of compiling and no new line of
// source; the other tests run them all.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

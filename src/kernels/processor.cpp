// SPDX-License-Identifier: Apache-2.0
// Which of the compiled instruction sets this processor and its system can run: the part of Highway that is not
// headers, so that who links this library links nothing else. The names are Highway's, in a namespace of ours
// (cmake/PrivateHeaders.cmake).
#if !SPECTRALCLIP_NO_SIMD
#include "kernels/targets.h"
// after the choice of targets
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "hwy/highway.h"
#include "hwy/targets.h"
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {
namespace {

#if HWY_ARCH_X86
bool has_bit(unsigned leaf, int reg, unsigned bit) noexcept {
  unsigned registers[4] = {};
  if (__get_cpuid_count(leaf, 0, &registers[0], &registers[1], &registers[2], &registers[3]) == 0) return false;
  return (registers[reg] >> bit & 1U) != 0;
}

// What Highway lets the compiler use in each set (hwy/ops/set_macros-inl.h). __builtin_cpu_supports also asks whether
// the system keeps the wide registers; F16C has no name there in every compiler, and comes with the registers of AVX.
std::int64_t detected() noexcept {
  __builtin_cpu_init();
  std::int64_t targets = HWY_STATIC_TARGET;
  const bool sse4 =
      __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  if (__builtin_cpu_supports("ssse3")) targets |= HWY_SSSE3;
  if (sse4) targets |= HWY_SSE4;
  const bool f16c = has_bit(1, 2, 29);
  const bool avx2 = sse4 && f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (avx2) targets |= HWY_AVX2;
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx3) targets |= HWY_AVX3;
  return targets;
}
#else
std::int64_t detected() noexcept { return HWY_STATIC_TARGET; }  // NEON is part of every 64-bit Arm
#endif

std::atomic<std::int64_t> forced{0};

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t targets = detected();
  const std::int64_t wanted = forced;
  return wanted == 0 ? targets : wanted;
}

void SetSupportedTargetsForTest(std::int64_t targets) {
  forced = targets;
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// Called by Highway's assertions, which are compiled in debug builds only.
void Abort(const char* file, int line, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::vfprintf(stderr, format, values);
  std::fputc('\n', stderr);
  va_end(values);
  std::abort();
}

}  // namespace hwy
#endif

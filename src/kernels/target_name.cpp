// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels use, by name.
#include <cstdlib>
#include <string>

#include "kernels/norm.h"
#include "require.h"
#include "spectralclip/version.h"

#if !SPECTRALCLIP_NO_SIMD
#include "kernels/targets.h"
// after the choice of targets
#include "hwy/highway.h"
#include "hwy/targets.h"
#endif

namespace spectralclip {
namespace {

#if SPECTRALCLIP_NO_SIMD
std::string choices() { return "scalar"; }
bool choose(std::string_view name) { return name == "scalar"; }
void choose_widest() {}
#else
std::string choices() {
  std::string names;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    names += (names.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
  }
  return names;
}

bool choose(std::string_view name) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    return true;
  }
  return false;
}

void choose_widest() { hwy::SetSupportedTargetsForTest(0); }
#endif

}  // namespace

const char* simd_target() noexcept { return kernels::chosen_target(); }

void set_simd_target(std::string_view name) {
  choose_widest();
  if (name.empty()) return;
  SPECTRALCLIP_REQUIRE(choose(name), "no SIMD target \"", name, "\" here, expected one of ", choices());
}

void set_simd_target_from_environment() {
  const char* const name = std::getenv("SPECTRALCLIP_SIMD_TARGET");
  if (name != nullptr) set_simd_target(name);
}

}  // namespace spectralclip

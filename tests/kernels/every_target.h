// SPDX-License-Identifier: Apache-2.0
// Runs a test once per instruction set that was compiled and that this machine has, through the public functions: the
// list of supported targets is mocked, so dispatch itself is what picks the kernel.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/norm.h"
#include "spectralclip/version.h"

#if !SPECTRALCLIP_NO_SIMD
#include "kernels/targets.h"
// after the choice of targets
#include "hwy/targets.h"
#endif

namespace spectralclip::kernels {

#if SPECTRALCLIP_NO_SIMD
template <class Body>
void for_each_target(const Body& body) {
  EXPECT_STREQ(chosen_target(), "scalar");
  body();
}
#else
struct RestoreTargets {
  ~RestoreTargets() {
    set_simd_target("");
    set_simd_target_from_environment();
  }
};

template <class Body>
void for_each_target(const Body& body) {
  const RestoreTargets restore;
  set_simd_target("");
  const auto targets = hwy::SupportedAndGeneratedTargets();  // before they are narrowed to one
  for (const auto target : targets) {
    set_simd_target(hwy::TargetName(target));
    ASSERT_EQ(std::string(chosen_target()), hwy::TargetName(target)) << "dispatch ignores the mocked target";
    const testing::ScopedTrace trace(__FILE__, __LINE__, hwy::TargetName(target));
    body();
    if (testing::Test::HasFatalFailure()) return;
  }
}
#endif

}  // namespace spectralclip::kernels

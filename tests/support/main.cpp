// SPDX-License-Identifier: Apache-2.0
// The main() of all test programs: GoogleTest's, on the instruction set of SPECTRALCLIP_SIMD_TARGET if that is set.
#include <gtest/gtest.h>

#include <cstdio>

#include "spectralclip/error.h"
#include "spectralclip/version.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    spectralclip::set_simd_target_from_environment();
  } catch (const spectralclip::InvalidArgument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return RUN_ALL_TESTS();
}

// SPDX-License-Identifier: Apache-2.0
// The main() of all test programs: GoogleTest's, on the instruction set of SPECTRALCLIP_SIMD_TARGET if that is set, in
// the locale of the environment, as a host program may be.
#include <gtest/gtest.h>

#include <cstdio>
#include <locale>
#include <stdexcept>

#include "spectralclip/error.h"
#include "spectralclip/version.h"

namespace {

void take_the_users_locale() {
  try {
    std::locale::global(std::locale(""));  // C's too
  } catch (const std::runtime_error&) {
    // not installed here
  }
}

}  // namespace

int main(int argc, char** argv) {
  take_the_users_locale();
  testing::InitGoogleTest(&argc, argv);
  try {
    spectralclip::set_simd_target_from_environment();
  } catch (const spectralclip::InvalidArgument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return RUN_ALL_TESTS();
}

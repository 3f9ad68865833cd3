// SPDX-License-Identifier: Apache-2.0
// SPECTRALCLIP_TEST_QUICK=1 shrinks counts and drops large shapes: for sanitizer runs, which are ten times slower.
#pragma once

#include <cstdlib>
#include <string_view>

namespace spectralclip::testing {

[[nodiscard]] inline bool quick() {
  const char* const wish = std::getenv("SPECTRALCLIP_TEST_QUICK");
  return wish != nullptr && std::string_view(wish) != "" && std::string_view(wish) != "0";
}

// How often: `full` normally, `reduced` in a quick run.
[[nodiscard]] inline int repeats(int full, int reduced) { return quick() ? reduced : full; }

}  // namespace spectralclip::testing

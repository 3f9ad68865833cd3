// SPDX-License-Identifier: Apache-2.0
// What a tracked matrix remembers between steps: plain data, all of it checkpointed.
#pragma once

#include <cstdint>
#include <vector>

namespace spectralclip {

struct SubspaceState {
  std::int64_t cols = 0;            // n, length of a vector; 0 until the first step
  std::int64_t columns = 0;         // vectors wanted for the next step
  std::int64_t kept = 0;            // rows of V that hold a vector (<= columns)
  std::int64_t calm_steps = 0;      // steps in a row in which fewer would have been enough
  std::int64_t clipped_lately = 0;  // directions clipped in the latest step (what `auto` looks at)
  std::vector<float> V;             // kept x cols: leading right singular vectors, orthonormal, largest first
};

}  // namespace spectralclip

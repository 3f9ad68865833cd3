// SPDX-License-Identifier: Apache-2.0
// Randomness is an address: (seed, matrix id, step, pass) plus a position. No state to carry, save or share.
#pragma once

#include <cstdint>

namespace spectralclip {

struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t matrix_id = 0;  // hash of the parameter's name (random/name_hash.h)
  std::uint64_t step = 0;
  std::uint32_t pass = 0;
};

}  // namespace spectralclip

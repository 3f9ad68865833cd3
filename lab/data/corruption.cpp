// SPDX-License-Identifier: Apache-2.0
#include "data/corruption.h"

#include <cmath>

#include "noise/draws.h"
#include "require.h"

namespace spectralclip::lab::data {
namespace {

// Rounded down, so that bursts have the same length on both sides of 0.
std::int64_t burst_of(const Corruption& corruption, std::int64_t index) {
  const std::int64_t quotient = index / corruption.burst;
  return index % corruption.burst < 0 ? quotient - 1 : quotient;
}

}  // namespace

void validate(const Corruption& corruption) {
  SPECTRALCLIP_REQUIRE(corruption.share >= 0 && corruption.share <= 1, "share of corrupt data = ", corruption.share,
                       "; 0 to 1 was expected");
  SPECTRALCLIP_REQUIRE(corruption.burst >= 1, "burst = ", corruption.burst, "; at least 1 was expected");
}

bool is_corrupt(const Corruption& corruption, std::int64_t index) {
  validate(corruption);
  if (corruption.share == 0) return false;
  if (corruption.share == 1) return true;
  return Draws(corruption.seed, "corrupt burst", burst_of(corruption, index)).uniform() < corruption.share;
}

std::int64_t replacement(const Corruption& corruption, std::int64_t index, std::int64_t n) {
  return Draws(corruption.seed, "corrupt value", index).below(n);
}

std::int64_t corrupt(const Corruption& corruption, std::int64_t first, std::span<std::int64_t> values, std::int64_t n) {
  validate(corruption);
  std::int64_t replaced = 0, index = first;
  for (std::int64_t& value : values) {
    if (is_corrupt(corruption, index)) {
      value = replacement(corruption, index, n);
      ++replaced;
    }
    ++index;
  }
  return replaced;
}

}  // namespace spectralclip::lab::data

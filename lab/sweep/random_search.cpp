// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "random/uniform.h"
#include "sweep/searchers.h"

namespace spectralclip::lab {
namespace {

constexpr std::uint32_t kDomain = 0x73776570U;  // "swep": no other user of Philox has these counters

class RandomSearch final : public NumberedSearch {
 public:
  RandomSearch(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) {}
  Candidate ask() override {
    const std::int64_t trial = take_number();
    return {trial, values_at(space_, random_units(space_.size(), seed_, trial))};
  }

 private:
  SearchSpace space_;
  std::uint64_t seed_;
};

}  // namespace

Point random_units(std::size_t axes, std::uint64_t seed, std::int64_t trial) {
  Point units(axes);
  const auto number = static_cast<std::uint64_t>(trial);
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto words = philox4x32({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                                   static_cast<std::uint32_t>(axis), kDomain},
                                  key);
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
    units[axis] = static_cast<double>(bits >> 11) * 0x1p-53;  // 53 bits: every double of the kind k/2^53 in [0, 1)
  }
  return units;
}

std::unique_ptr<Search> make_random_search(const SearchSpace& space, std::uint64_t seed) {
  return std::make_unique<RandomSearch>(space, seed);
}

}  // namespace spectralclip::lab

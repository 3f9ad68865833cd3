// SPDX-License-Identifier: Apache-2.0
// One factory per searcher, each in a file of its own; search.h is what others include.
#pragma once

#include <algorithm>

#include "sweep/search.h"

namespace spectralclip::lab {

[[nodiscard]] std::unique_ptr<Search> make_grid_search(const SearchSpace& space);
[[nodiscard]] std::unique_ptr<Search> make_random_search(const SearchSpace& space, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Search> make_global_search(const SearchSpace& space, std::uint64_t seed);

// Point number `trial` of the stream `seed`, uniform in the unit cube. An address, not a state: any order, the same.
[[nodiscard]] Point random_units(std::size_t axes, std::uint64_t seed, std::int64_t trial);

// Numbers the candidates; for searchers that learn nothing from the values.
class NumberedSearch : public Search {
 public:
  void tell(const Candidate& candidate, std::optional<double> value) override {
    (void)value;
    adopt(candidate);
  }
  void adopt(const Candidate& candidate) override { next_trial_ = std::max(next_trial_, candidate.trial + 1); }

 protected:
  [[nodiscard]] std::int64_t take_number() { return next_trial_++; }

 private:
  std::int64_t next_trial_ = 1;
};

}  // namespace spectralclip::lab

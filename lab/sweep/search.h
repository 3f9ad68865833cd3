// SPDX-License-Identifier: Apache-2.0
// Which point to try next. A searcher is asked for candidates and told their values, smaller being better; several may
// be outstanding at once and they may come back in any order. Nothing here runs a trial.
//
// A searcher is deterministic: the same seed and the same sequence of calls give the same candidates. That is how a
// sweep is resumed (resume_search): the calls are made again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sweep/space.h"

namespace spectralclip::lab {

struct Candidate {
  std::int64_t trial = 0;  // 1, 2, … in the order of asking
  Point values;
};

enum class SearchKind { grid, random, global };

class Search {
 public:
  virtual ~Search() = default;
  Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  [[nodiscard]] virtual Candidate ask() = 0;
  // No value: the trial diverged or failed. A value that is not finite counts as none. Candidates that somebody else
  // asked for are welcome.
  virtual void tell(const Candidate& candidate, std::optional<double> value) = 0;
  // The candidate was asked for elsewhere and is still being tried: its number is taken.
  virtual void adopt(const Candidate& candidate) = 0;
};

// grid: all points in order, then asking throws. random: uniform on each axis' scale, by (seed, trial number) alone.
// global: see global_search.cpp.
[[nodiscard]] std::unique_ptr<Search> make_search(SearchKind kind, const SearchSpace& space, std::uint64_t seed);

struct PastAsk {
  Candidate candidate;
  std::int64_t told = 0;  // how many tells came before
};
struct PastTell {
  Candidate candidate;
  std::optional<double> value;
};

// A searcher in the state that one had after these calls: its next candidates are the same ones. If the searcher
// answers otherwise than it did then (another version of its library), it is only given what is known; it then
// proposes other candidates, but none of the old ones again.
[[nodiscard]] std::unique_ptr<Search> resume_search(SearchKind kind, const SearchSpace& space, std::uint64_t seed,
                                                    const std::vector<PastAsk>& asks,
                                                    const std::vector<PastTell>& tells);

[[nodiscard]] std::string_view name_of(SearchKind kind);
[[nodiscard]] SearchKind search_named(std::string_view name);  // throws InvalidArgument

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
#include "sweep/search.h"

#include <fmt/format.h>

#include <array>

#include "spectralclip/error.h"
#include "sweep/searchers.h"

namespace spectralclip::lab {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"grid", "random", "global"};  // order of SearchKind

// The calls once more; false as soon as an answer differs.
bool replay(Search& search, const std::vector<PastAsk>& asks, const std::vector<PastTell>& tells) {
  std::size_t told = 0;
  const auto tell_next = [&] {
    search.tell(tells[told].candidate, tells[told].value);
    ++told;
  };
  for (const PastAsk& ask : asks) {
    while (told < tells.size() && static_cast<std::int64_t>(told) < ask.told) tell_next();
    const Candidate candidate = search.ask();
    if (candidate.trial != ask.candidate.trial || candidate.values != ask.candidate.values) return false;
  }
  while (told < tells.size()) tell_next();
  return true;
}

}  // namespace

std::unique_ptr<Search> make_search(SearchKind kind, const SearchSpace& space, std::uint64_t seed) {
  validate(space);
  if (kind == SearchKind::grid) return make_grid_search(space);
  if (kind == SearchKind::random) return make_random_search(space, seed);
  return make_global_search(space, seed);
}

std::unique_ptr<Search> resume_search(SearchKind kind, const SearchSpace& space, std::uint64_t seed,
                                      const std::vector<PastAsk>& asks, const std::vector<PastTell>& tells) {
  std::unique_ptr<Search> search = make_search(kind, space, seed);
  if (replay(*search, asks, tells)) return search;
  search = make_search(kind, space, seed);
  for (const PastAsk& ask : asks) search->adopt(ask.candidate);
  for (const PastTell& tell : tells) search->tell(tell.candidate, tell.value);
  return search;
}

std::string_view name_of(SearchKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

SearchKind search_named(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames.at(i) == name) return static_cast<SearchKind>(i);
  throw InvalidArgument(fmt::format("search = \"{}\"; allowed: grid, random, global", name));
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// A search driven to its end on one process, as clip/ does it.
#pragma once

#include <cstdint>
#include <vector>

#include "subspace/search.h"

namespace spectralclip::testing {

// Returns the widths of the passes. After out_of_range there is nothing to finish.
template <class T>
std::vector<std::int64_t> drive(SubspaceSearch<T>& s, const AnyMatrix& G, Arena& pass_memory, Executor& executor) {
  std::vector<std::int64_t> widths;
  while (true) {
    widths.push_back(s.columns().k);
    run_pass(G, s.columns(), s.result(), pass_memory, executor);
    if (!s.take()) break;
  }
  if (s.outcome() != SearchOutcome::out_of_range) s.finish();
  return widths;
}

}  // namespace spectralclip::testing

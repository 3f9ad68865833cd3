// SPDX-License-Identifier: Apache-2.0
// Dirty data, by address: which labels or tokens are replaced follows from (seed, index) alone, in bursts as dirt comes
// (a bad shard, a broken export), so that a resumed run and any number of loaders see the same dirt.
#pragma once

#include <cstdint>
#include <span>

namespace spectralclip::lab::data {

struct Corruption {
  double share = 0;        // of all items, in expectation; in [0, 1]
  std::int64_t burst = 1;  // items in a row that are dirty together, >= 1
  std::uint64_t seed = 0;
};
void validate(const Corruption& corruption);  // throws InvalidArgument

// Index space is cut into bursts of `burst` items; each burst is dirty with probability `share`, all of it. What an
// index is decides what a burst is: the number of the image (dirty labels, the same in each epoch), or of the sample in
// the order of training (step * batch + i: dirty steps), or of the token in the row.
[[nodiscard]] bool is_corrupt(const Corruption& corruption, std::int64_t index);
// What stands there instead: uniform in 0 … n - 1, an address of its own for each index. It may be the true value (one
// in n), as when labels are shuffled. n in [1, 2^32].
[[nodiscard]] std::int64_t replacement(const Corruption& corruption, std::int64_t index, std::int64_t n);
// values[i] is item first + i: the corrupt ones are replaced by replacement(…, n). Returns how many.
std::int64_t corrupt(const Corruption& corruption, std::int64_t first, std::span<std::int64_t> values, std::int64_t n);

}  // namespace spectralclip::lab::data

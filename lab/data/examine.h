// SPDX-License-Identifier: Apache-2.0
// Is a file what it is taken for? By size and SHA-256 where they are known, by its format where they are not.
#pragma once

#include <cstdint>
#include <string>

#include "data/locate.h"

namespace spectralclip::lab::data {

struct Finding {
  bool good = true;    // false: damaged, or another file under a known name
  bool known = false;  // the sum is one of the list's
  std::int64_t bytes = 0;
  std::string sha256;
  std::string text;  // what it is, or what is wrong, for people
};

// Reads the whole file. Throws DataError only when it cannot be read at all.
[[nodiscard]] Finding examine(const DataSet& set, const std::string& path);

}  // namespace spectralclip::lab::data

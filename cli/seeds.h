// SPDX-License-Identifier: Apache-2.0
// "7", "1..5", "1,4,9", "1..3,8" as seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spectralclip::cli {

// In the order given; empty for "". Throws InvalidArgument naming the text.
[[nodiscard]] std::vector<std::uint64_t> parse_seeds(const std::string& text);

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
#include "seeds.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "require.h"

namespace spectralclip::cli {
namespace {

constexpr std::uint64_t kMost = 10000;

std::uint64_t number(std::string_view text, const std::string& all) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  SPECTRALCLIP_REQUIRE(error == std::errc{} && end == text.data() + text.size() && !text.empty(), "seeds \"", all,
                       "\": expected whole numbers like 3, 1..5 or 1,4,9");
  return value;
}

}  // namespace

std::vector<std::uint64_t> parse_seeds(const std::string& text) {
  std::vector<std::uint64_t> seeds;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, comma - begin);
    const std::size_t dots = part.find("..");
    const std::uint64_t first = number(part.substr(0, dots), text);
    const std::uint64_t last = dots == std::string_view::npos ? first : number(part.substr(dots + 2), text);
    SPECTRALCLIP_REQUIRE(first <= last && last - first < kMost, "seeds \"", text, "\": expected first..last, at most ",
                         kMost, " of them");
    for (std::uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
    begin = comma + 1;
  }
  std::vector<std::uint64_t> sorted = seeds;
  std::sort(sorted.begin(), sorted.end());
  SPECTRALCLIP_REQUIRE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "seeds \"", text,
                       "\": a seed is named twice");
  return seeds;
}

}  // namespace spectralclip::cli

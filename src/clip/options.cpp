// SPDX-License-Identifier: Apache-2.0
// Ranges of the clip options and the names of the methods. A rank above min(rows, cols) is refused where the matrix is
// known, not here.
#include "spectralclip/options.h"

#include <array>
#include <string>

#include "require.h"

namespace spectralclip {
namespace {

constexpr std::array kMethods = {Method::exact,   Method::gram,          Method::sketched,
                                 Method::tracked, Method::newton_schulz, Method::automatic};

// Keeps rank + oversampling, and products of it with a row of any real matrix, far from int64 overflow.
constexpr std::int64_t kLargestRank = (std::int64_t{1} << 31) - 1;

std::string method_names() {
  std::string names;
  for (const Method method : kMethods) names += (names.empty() ? "" : ", ") + std::string(to_string(method));
  return names;
}

template <class T>
void require_within(const char* name, T value, T low, T high) {
  SPECTRALCLIP_REQUIRE(value >= low && value <= high, name, " = ", value, " must lie in [", low, ", ", high, "]");
}

}  // namespace

const char* to_string(Method method) noexcept {
  switch (method) {
    case Method::exact:
      return "exact";
    case Method::gram:
      return "gram";
    case Method::sketched:
      return "sketched";
    case Method::tracked:
      return "tracked";
    case Method::newton_schulz:
      return "newton_schulz";
    case Method::automatic:
      return "auto";
  }
  return "unknown";
}

Method parse_method(std::string_view name) {
  for (const Method method : kMethods) {
    if (name == to_string(method)) return method;
  }
  throw InvalidArgument(detail::concat("method \"", name, "\" is none of ", method_names()));
}

void validate(const ClipOptions& options) {
  SPECTRALCLIP_REQUIRE(options.method <= Method::automatic, "method = ", static_cast<int>(options.method),
                       " is none of ", method_names(), " (0 to 5)");
  SPECTRALCLIP_REQUIRE(options.exhausted <= Exhausted::automatic, "exhausted = ", static_cast<int>(options.exhausted),
                       " is none of go_exact (0), report (1), auto (2)");
  if (options.rank) require_within<std::int64_t>("rank", *options.rank, 1, kLargestRank);
  require_within<std::int64_t>("oversampling", options.oversampling, 0, kLargestRank);
  require_within("power_passes", options.power_passes, 0, 16);
  SPECTRALCLIP_REQUIRE(options.tolerance > 0 && options.tolerance < 1, "tolerance = ", options.tolerance,
                       " must lie in (0, 1)");
  SPECTRALCLIP_REQUIRE(options.margin > 0 && options.margin <= 0.1, "margin = ", options.margin,
                       " must lie in (0, 0.1]");
  require_within("max_passes", options.max_passes, 1, 64);
  require_within<std::int64_t>("max_columns", options.max_columns, 8, 512);
}

}  // namespace spectralclip

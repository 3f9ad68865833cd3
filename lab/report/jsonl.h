// SPDX-License-Identifier: Apache-2.0
// JSON files as they are found after a crash, a full disk or in the middle of a run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct LineCounts {
  std::int64_t read = 0;
  std::int64_t damaged = 0;  // not an object of JSON; skipped
  bool torn = false;         // the last line has no end and is not JSON: somebody is, or was, writing it
};

// Calls `take` with each line that is an object. A file that is absent has no lines.
LineCounts for_each_line(const std::string& path, const std::function<void(const Json&)>& take);

// A whole file that should be one object; nothing when it is absent, unreadable or something else.
[[nodiscard]] std::optional<Json> read_object(const std::string& path);

// Members of an object, with the given value when they are absent, null or of another kind.
[[nodiscard]] double number_in(const Json& object, std::string_view key, double otherwise = kNothing);
[[nodiscard]] std::string text_in(const Json& object, std::string_view key, const std::string& otherwise = {});

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Every option by name, declared once: what configuration files, command lines and other languages set, list and
// explain. Values are text; numbers round-trip exactly.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spectralclip/clipper.h"
#include "spectralclip/export.h"

namespace spectralclip {

struct Setting {
  std::string name;
  std::string value;    // as it stands in the options that were asked
  std::string allowed;  // "exact, gram, …", "integer in [1, 64]", …
  std::string help;
};

// All settings of an options struct with their present values.
[[nodiscard]] SPECTRALCLIP_EXPORT std::vector<Setting> settings_of(const ClipOptions& options);
[[nodiscard]] SPECTRALCLIP_EXPORT std::vector<Setting> settings_of(const ThresholdOptions& options);
[[nodiscard]] SPECTRALCLIP_EXPORT std::vector<Setting> settings_of(const Rule& rule);

// Sets one option. Throws InvalidArgument naming the option, the value and what is allowed; an unknown name is refused
// with the nearest known one. Ranges that involve the type alone are checked here, the others by validate().
SPECTRALCLIP_EXPORT void set_option(ClipOptions& options, std::string_view name, std::string_view value);
SPECTRALCLIP_EXPORT void set_option(ThresholdOptions& options, std::string_view name, std::string_view value);
SPECTRALCLIP_EXPORT void set_option(Rule& rule, std::string_view name, std::string_view value);

// The known name closest to `name` (edit distance), empty when none is near.
[[nodiscard]] SPECTRALCLIP_EXPORT std::string nearest_name(std::string_view name,
                                                           const std::vector<std::string>& known);

}  // namespace spectralclip

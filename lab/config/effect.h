// SPDX-License-Identifier: Apache-2.0
// Which settings of a run did anything: a norm clipper has no quantile, Adam no momentum form.
#pragma once

#include <map>
#include <string>

namespace spectralclip::lab {

// settings: key -> text, as in summary.json. Keys of other groups than optimizer, clip and noise always count.
[[nodiscard]] bool has_effect(const std::map<std::string, std::string>& settings, const std::string& key);

}  // namespace spectralclip::lab

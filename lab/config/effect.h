// SPDX-License-Identifier: Apache-2.0
// Which settings of a run did anything: a norm clipper has no quantile, Adam no momentum form.
#pragma once

#include <map>
#include <string>

namespace spectralclip::lab {

// Why a setting does nothing: "clip.threshold = ema" for clip.tau; empty when it does something. `settings` as below.
[[nodiscard]] std::string why_without_effect(const std::map<std::string, std::string>& settings,
                                             const std::string& key);

// settings: key -> text, as in summary.json. Keys of other groups than optimizer, clip and noise always count.
[[nodiscard]] bool has_effect(const std::map<std::string, std::string>& settings, const std::string& key);

}  // namespace spectralclip::lab

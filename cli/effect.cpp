// SPDX-License-Identifier: Apache-2.0
#include "effect.h"

#include <map>

#include "config/effect.h"
#include "config/keys.h"
#include "require.h"

namespace spectralclip::cli {

void require_effect(const lab::Config& config, const std::vector<std::string>& assignments) {
  if (assignments.empty()) return;
  std::map<std::string, std::string> settings;
  for (const lab::KeyInfo& info : lab::keys_of(config)) settings[info.key] = info.value;
  for (const std::string& assignment : assignments) {
    const std::string key = assignment.substr(0, assignment.find('='));
    const std::string reason = lab::why_without_effect(settings, key);
    SPECTRALCLIP_REQUIRE(reason.empty(), key, " has no effect while ", reason);
  }
}

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// The order in which rules are tried, as in the clipper: the caller's, then the default ones.
#pragma once

#include <utility>
#include <vector>

#include "spectralclip/rules.h"

namespace spectralclip::torch {

[[nodiscard]] inline std::vector<Rule> with_default_rules(std::vector<Rule> rules) {
  std::vector<Rule> defaults = default_rules();
  for (Rule& rule : defaults) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace spectralclip::torch

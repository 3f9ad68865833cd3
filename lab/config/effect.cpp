// SPDX-License-Identifier: Apache-2.0
#include "config/effect.h"

#include <algorithm>
#include <vector>

namespace spectralclip::lab {
namespace {

// A key matters only while another one has one of these values, or `also` has.
struct Condition {
  std::vector<std::string> keys;
  std::string decider;
  std::vector<std::string> values;
  std::string also = {};
};

const std::vector<Condition>& conditions() {
  static const std::vector<Condition> all = {
      {{"optimizer.momentum", "optimizer.nesterov"}, "optimizer.kind", {"sgdm", "muon"}},
      {{"optimizer.momentum_form"}, "optimizer.kind", {"sgdm"}},
      {{"optimizer.beta1", "optimizer.beta2", "optimizer.eps"},
       "optimizer.kind",
       {"adam", "adamw", "muon"},
       "optimizer.vectors"},
      {{"optimizer.vector_lr"}, "optimizer.vectors", {"adam", "adamw"}},
      {{"clip.max_norm"}, "clip.kind", {"global_norm", "layer_norm"}},
      {{"clip.agc_factor"}, "clip.kind", {"agc"}},
      {{"clip.max_value"}, "clip.kind", {"coordinate"}},
      {{"clip.soft_scale"}, "clip.kind", {"soft", "soft_update"}},
      {{"clip.tau"}, "clip.threshold", {"constant"}},
      {{"clip.decay"}, "clip.threshold", {"ema"}},
      {{"clip.quantile", "clip.window", "clip.interpolation"}, "clip.threshold", {"quantile"}},
      {{"train.final_lr"}, "train.schedule", {"linear", "cosine"}},
      {{"noise.probability", "noise.scale"}, "noise.kind", {"gaussian", "pareto", "rank_gaussian", "rank_pareto"}},
      {{"noise.alpha"}, "noise.kind", {"pareto", "rank_pareto"}},
      {{"noise.rank"}, "noise.kind", {"rank_gaussian", "rank_pareto"}}};
  return all;
}

bool is_of_other_clippers(const std::string& key) {
  static const std::vector<std::string> own = {"clip.kind", "clip.max_norm", "clip.agc_factor", "clip.max_value",
                                               "clip.soft_scale"};
  return std::find(own.begin(), own.end(), key) != own.end();
}

// "clip.threshold = ema" when that decides against the condition.
std::string against(const std::map<std::string, std::string>& settings, const Condition& condition) {
  const auto is_met = [&](auto found) {
    return std::find(condition.values.begin(), condition.values.end(), found->second) != condition.values.end();
  };
  const auto found = settings.find(condition.decider), also = settings.find(condition.also);
  const bool met = found == settings.end() || is_met(found) || (also != settings.end() && is_met(also));
  return met ? std::string() : condition.decider + " = " + found->second;
}

}  // namespace

std::string why_without_effect(const std::map<std::string, std::string>& settings, const std::string& key) {
  const auto kind = settings.find("clip.kind");
  if (key.starts_with("clip.") && !is_of_other_clippers(key) && kind != settings.end() && kind->second != "spectral")
    return "clip.kind = " + kind->second;
  for (const Condition& condition : conditions()) {
    if (std::find(condition.keys.begin(), condition.keys.end(), key) == condition.keys.end()) continue;
    if (std::string reason = against(settings, condition); !reason.empty()) return reason;
  }
  return {};
}

bool has_effect(const std::map<std::string, std::string>& settings, const std::string& key) {
  return why_without_effect(settings, key).empty();
}

}  // namespace spectralclip::lab

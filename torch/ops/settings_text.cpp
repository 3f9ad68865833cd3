// SPDX-License-Identifier: Apache-2.0
#include "ops/settings_text.h"

#include <charconv>

#include "require.h"
#include "spectralclip/settings.h"

namespace spectralclip::torch {
namespace {

struct Entry {
  std::string_view name;
  std::string_view value;
};

Entry split(const std::string& text) {
  const std::size_t equals = text.find('=');
  SPECTRALCLIP_REQUIRE(equals != std::string::npos, "setting \"", text, "\" is not of the form name=value");
  const std::string_view view = text;
  return {view.substr(0, equals), view.substr(equals + 1)};
}

// "prefix.rest" -> rest; empty when the name has another prefix.
std::string_view behind(std::string_view prefix, std::string_view name) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view{};
}

bool flag(const Entry& entry) {
  SPECTRALCLIP_REQUIRE(entry.value == "true" || entry.value == "false", entry.name, " = \"", entry.value,
                       "\" is not true or false");
  return entry.value == "true";
}

double number(const Entry& entry) {
  double value = 0;
  const auto [end, error] = std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), value);
  SPECTRALCLIP_REQUIRE(error == std::errc{} && end == entry.value.data() + entry.value.size(), entry.name, " = \"",
                       entry.value, "\" is not a number");
  return value;
}

double& limit_called(GradientClipOptions& options, std::string_view name) {
  if (name == "max_norm") return options.max_norm;
  if (name == "agc_factor") return options.agc_factor;
  if (name == "agc_epsilon") return options.agc_epsilon;
  if (name == "max_value") return options.max_value;
  SPECTRALCLIP_REQUIRE(name == "soft_scale", "no setting is called \"", name, "\"");
  return options.soft_scale;
}

OnNonFinite on_nonfinite(const Entry& entry) {
  if (entry.value == "leave_layer") return OnNonFinite::leave_layer;
  SPECTRALCLIP_REQUIRE(entry.value == "leave_all", "on_nonfinite = \"", entry.value,
                       "\" is none of leave_layer, leave_all, raise");
  return OnNonFinite::leave_all;
}

// Sets clip.x and threshold.x; false when the entry is neither.
bool set_own(const Entry& entry, std::optional<ClipOptions>& clip, std::optional<ThresholdOptions>& threshold) {
  if (const auto name = behind("clip.", entry.name); !name.empty()) {
    if (!clip) clip.emplace();
    set_option(*clip, name, entry.value);
    return true;
  }
  if (const auto name = behind("threshold.", entry.name); !name.empty()) {
    if (!threshold) threshold.emplace();
    set_option(*threshold, name, entry.value);
    return true;
  }
  return false;
}

}  // namespace

ClipOptions clip_options(const SettingTexts& texts, ClipOptions options) {
  for (const std::string& text : texts) set_option(options, split(text).name, split(text).value);
  return options;
}

Rule rule_from(const SettingTexts& texts) {
  Rule rule;
  for (const std::string& text : texts) {
    const Entry entry = split(text);
    if (!set_own(entry, rule.clip, rule.threshold)) set_option(rule, entry.name, entry.value);
  }
  return rule;
}

Parameter parameter_from(std::string name, std::vector<std::int64_t> shape, const SettingTexts& texts) {
  Parameter parameter{std::move(name), std::move(shape)};
  for (const std::string& text : texts) {
    const Entry entry = split(text);
    SPECTRALCLIP_REQUIRE(set_own(entry, parameter.clip, parameter.threshold), "parameter \"", parameter.name,
                         "\" has no setting \"", entry.name, "\"");
  }
  return parameter;
}

SpectralClipperOptions clipper_options(const SettingTexts& texts, const std::vector<SettingTexts>& rules) {
  SpectralClipperOptions options;
  std::optional<ClipOptions> clip = options.clip;
  std::optional<ThresholdOptions> threshold = options.threshold;
  for (const std::string& text : texts) {
    const Entry entry = split(text);
    if (set_own(entry, clip, threshold)) continue;
    if (entry.name == "on_nonfinite") {
      options.on_nonfinite = on_nonfinite(entry);
    } else if (entry.name == "observe_only") {
      options.observe_only = flag(entry);
    } else if (entry.name == "error_if_nonfinite") {
      options.error_if_nonfinite = flag(entry);
    } else if (entry.name == "backend") {
      options.backend = parse_backend(entry.value);
    } else {
      throw InvalidArgument(detail::concat("no setting is called \"", entry.name, "\""));
    }
  }
  options.clip = *clip;
  options.threshold = *threshold;
  for (const SettingTexts& rule : rules) options.rules.push_back(rule_from(rule));
  return options;
}

GradientClipOptions gradient_clip_options(const SettingTexts& texts, const std::vector<SettingTexts>& rules) {
  GradientClipOptions options;
  for (const std::string& text : texts) {
    const Entry entry = split(text);
    if (entry.name == "kind") {
      options.kind = parse_gradient_clip(entry.value);
    } else if (entry.name == "backend") {
      options.spectral.backend = parse_backend(entry.value);
    } else {
      limit_called(options, entry.name) = number(entry);
    }
  }
  for (const SettingTexts& rule : rules) options.spectral.rules.push_back(rule_from(rule));
  return options;
}

}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
#include "config/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "config/declarations.h"
#include "require.h"
#include "spectralclip/settings.h"

namespace spectralclip::lab {
namespace {

// ---- what is allowed, as text and as a check

std::string number_text(double value) { return fmt::format("{}", value); }

std::string allowed_text(const Range& range, bool integer) {
  const std::string what = integer ? "integer" : "number";
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  if (low && high)
    return fmt::format("{} in {}{}, {}{}", what, range.open_low ? '(' : '[', number_text(range.low),
                       number_text(range.high), range.open_high ? ')' : ']');
  if (low) return fmt::format("{} {} {}", what, range.open_low ? ">" : ">=", number_text(range.low));
  return what;
}

bool holds(const Range& range, double value) {
  if (!std::isfinite(value)) return false;
  return (range.open_low ? value > range.low : value >= range.low) &&
         (range.open_high ? value < range.high : value <= range.high);
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

template <class Field>
std::string allowed_text_for(const Field&, const Range& range) {
  if constexpr (std::is_same_v<Field, std::vector<double>>)
    return "numbers, each a " + allowed_text(range, false) + ", with commas between";
  return allowed_text(range, std::is_integral_v<Field>);
}
std::string allowed_text_for(const std::string&, const Choice& choice) { return joined(choice.names); }
template <class Field>
std::string allowed_text_for(const Field&, const AnyValue& any) {
  return any.text;
}

// Which kinds of values a field may have: the visitor of a task's keys has lost the types and meets all combinations.
template <class Field, class Allowed>
inline constexpr bool kFits =
    std::is_same_v<Allowed, AnyValue> ? std::is_same_v<Field, std::string> || std::is_same_v<Field, bool>
    : std::is_same_v<Allowed, Choice> ? std::is_same_v<Field, std::string>
                                      : !std::is_same_v<Field, std::string> && !std::is_same_v<Field, bool>;

// All keys, those of the tasks last.
template <class See>
void visit_all(Config& config, See&& see) {
  visit(config, see);
  const auto see_erased = [&](const char* key, KeyField erased, const KeyAllowed& erased_allowed, const char* help) {
    std::visit(
        [&](auto* field, const auto& allowed) {
          if constexpr (kFits<std::remove_cvref_t<decltype(*field)>, std::remove_cvref_t<decltype(allowed)>>)
            see(key, *field, allowed, help);
          else
            throw std::logic_error(std::string(key) + " is declared with what its type cannot have");
        },
        erased, erased_allowed);
  };
  for (KeyGroup& group : config.tasks) group.visit(see_erased);
}

// ---- fields to text and back

std::string text_of(const std::string& field) { return field; }
std::string text_of(bool field) { return field ? "true" : "false"; }
template <class Number>
requires std::is_arithmetic_v<Number> std::string text_of(Number field) { return fmt::format("{}", field); }
std::string text_of(const std::vector<double>& field) { return fmt::format("{}", fmt::join(field, ", ")); }

template <class Number>
requires std::is_arithmetic_v<Number>
bool parse_number(std::string_view text, Number& field) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool parse(std::string_view text, std::string& field, const Choice& choice) {
  field = text;
  return std::find(choice.names.begin(), choice.names.end(), field) != choice.names.end();
}
bool parse(std::string_view text, std::string& field, const AnyValue&) {
  field = text;
  return !text.empty();
}
bool parse(std::string_view text, bool& field, const AnyValue&) {
  field = text == "true";
  return text == "true" || text == "false";
}
template <class Number>
requires std::is_arithmetic_v<Number>
bool parse(std::string_view text, Number& field, const Range& range) {
  Number value{};
  if (!parse_number(text, value) || !holds(range, static_cast<double>(value))) return false;
  field = value;
  return true;
}
bool parse(std::string_view text, std::vector<double>& field, const Range& range) {
  std::vector<double> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    double value = 0;
    if (!parse(trimmed(text.substr(begin, comma - begin)), value, range)) return false;
    values.push_back(value);
    begin = comma + 1;
  }
  field = std::move(values);
  return true;
}

template <class Field>
constexpr ValueType type_of() {
  if constexpr (std::is_same_v<Field, std::string>) return ValueType::text;
  if constexpr (std::is_same_v<Field, bool>) return ValueType::boolean;
  if constexpr (std::is_same_v<Field, std::vector<double>>) return ValueType::list;
  return std::is_integral_v<Field> ? ValueType::integer : ValueType::number;
}

// ---- the keys of a spectral clip, which the core declares: "clip." + name, the threshold's kind as "clip.threshold"

std::string key_of_threshold(const std::string& name) { return name == "kind" ? "clip.threshold" : "clip." + name; }

ValueType type_of_core(const Setting& setting) {
  if (setting.allowed.starts_with("integer")) return ValueType::integer;
  if (setting.allowed.starts_with("number")) return ValueType::number;
  return setting.allowed == "true, false" ? ValueType::boolean : ValueType::text;
}

void append_core_keys(std::vector<KeyInfo>& keys, const ClipConfig& clip) {
  for (const Setting& s : settings_of(clip.threshold))
    keys.push_back({key_of_threshold(s.name), type_of_core(s), s.value, s.allowed, "spectral: " + s.help});
  for (const Setting& s : settings_of(clip.options))
    keys.push_back({"clip." + s.name, type_of_core(s), s.value, s.allowed, "spectral: " + s.help});
}

// True when the key was one of them.
bool set_core_key(ClipConfig& clip, std::string_view key, std::string_view value) {
  for (const Setting& s : settings_of(clip.threshold)) {
    if (key_of_threshold(s.name) != key) continue;
    set_option(clip.threshold, s.name, value);
    return true;
  }
  for (const Setting& s : settings_of(clip.options)) {
    if ("clip." + s.name != key) continue;
    set_option(clip.options, s.name, value);
    return true;
  }
  return false;
}

[[noreturn]] void refuse_key(std::string_view key) {
  std::vector<std::string> known;
  for (const KeyInfo& info : keys_of(Config{})) known.push_back(info.key);
  const std::string near = nearest_name(key, known);
  throw InvalidArgument(detail::concat(
      "no key is called \"", key, "\"",
      near.empty() ? std::string("; `spectralclip list --keys` shows them") : "; did you mean \"" + near + "\"?"));
}

}  // namespace

std::string group_of(std::string_view key) {
  const std::size_t dot = key.find('.');
  return dot == std::string_view::npos ? std::string() : std::string(key.substr(0, dot));
}

std::vector<KeyInfo> keys_of(const Config& config) {
  std::vector<KeyInfo> keys;
  Config copy = config;  // the visitor takes it by reference for setting
  visit_all(copy, [&](const char* key, auto& field, const auto& allowed, const char* help) {
    keys.push_back(
        {key, type_of<std::remove_cvref_t<decltype(field)>>(), text_of(field), allowed_text_for(field, allowed), help});
    if (keys.back().key == "clip.soft_scale") append_core_keys(keys, copy.clip);  // beside the other keys of clip
  });
  return keys;
}

std::vector<KeyInfo> keys_of(const Config& config, const std::vector<std::string>& groups) {
  std::vector<KeyInfo> keys = keys_of(config);
  std::erase_if(keys, [&](const KeyInfo& info) {
    const std::string group = group_of(info.key);
    return !group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end();
  });
  return keys;
}

void set_key(Config& config, std::string_view key, std::string_view value) {
  bool found = false;
  visit_all(config, [&](const char* name, auto& field, const auto& allowed, const char*) {
    if (name != key) return;
    found = true;
    auto parsed = field;
    if (!parse(value, parsed, allowed))
      throw InvalidArgument(detail::concat(key, " = \"", value, "\": expected ", allowed_text_for(field, allowed)));
    field = parsed;
  });
  if (found) return;
  try {
    if (!set_core_key(config.clip, key, value)) refuse_key(key);
  } catch (const InvalidArgument& error) {
    if (key.starts_with("clip.")) throw InvalidArgument(detail::concat(key, ": ", error.what()));
    throw;
  }
}

std::string set_assignment(Config& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw InvalidArgument(detail::concat("\"", assignment, "\": expected key=value, for example optimizer.lr=0.01"));
  const std::string key(trimmed(assignment.substr(0, equals)));
  set_key(config, key, trimmed(assignment.substr(equals + 1)));
  return key;
}

void validate(const Config& config) {
  try {
    spectralclip::validate(config.clip.options);
    spectralclip::validate(config.clip.threshold);
  } catch (const InvalidArgument& error) {  // the core names its option, here it is a key
    throw InvalidArgument(std::string("clip.") + error.what());
  }
  if (config.task == "rates") {
    SPECTRALCLIP_REQUIRE(config.rates.first_steps < config.train.steps,
                         "rates.first_steps = ", config.rates.first_steps,
                         ": expected less than train.steps = ", config.train.steps);
    SPECTRALCLIP_REQUIRE(
        config.rates.noise.find("gaussian") != std::string::npos || config.rates.tail > config.rates.alpha,
        "rates.tail = ", config.rates.tail, ": expected more than rates.alpha = ", config.rates.alpha,
        ", or the noise has no such moment");
  }
  for (const KeyGroup& group : config.tasks) group.validate();
  SPECTRALCLIP_REQUIRE(!config.optimizer.nesterov || config.optimizer.kind == "muon" ||
                           (config.optimizer.kind == "sgdm" && config.optimizer.momentum_form == "classic"),
                       "optimizer.nesterov = true: expected optimizer.kind muon, or sgdm with momentum_form classic");
}

}  // namespace spectralclip::lab

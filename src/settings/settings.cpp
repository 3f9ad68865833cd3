// SPDX-License-Identifier: Apache-2.0
// Text to fields and back. One overload of parse and of text_of per kind of field; the names are in declarations.h.
#include "spectralclip/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <type_traits>

#include "require.h"
#include "settings/declarations.h"

namespace spectralclip {
namespace {

template <class Enum>
struct Names;
template <>
struct Names<Method> {
  static constexpr std::array values = {"exact", "gram", "sketched", "tracked", "newton_schulz", "auto"};
};
template <>
struct Names<Exhausted> {
  static constexpr std::array values = {"go_exact", "report", "auto"};
};
template <>
struct Names<ThresholdKind> {
  static constexpr std::array values = {"constant", "ema", "quantile"};
};
template <>
struct Names<FirstStep> {
  static constexpr std::array values = {"unclipped", "zero"};
};
template <>
struct Names<Interpolation> {
  static constexpr std::array values = {"lower", "linear"};
};
template <>
struct Names<Treatment> {
  static constexpr std::array values = {"spectral", "norm", "skip"};
};

template <class Enum>
requires std::is_enum_v<Enum>
bool parse(std::string_view text, Enum& field) {
  const auto& names = Names<Enum>::values;
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return false;
  field = static_cast<Enum>(found - names.begin());
  return true;
}

template <class Number>
requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) bool parse(std::string_view text,
                                                                                   Number& field) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  field = value;
  return true;
}

bool parse(std::string_view text, bool& field) {
  field = text == "true";
  return text == "true" || text == "false";
}

bool parse(std::string_view text, std::string& field) {
  field = text;
  return true;
}

bool parse(std::string_view text, std::optional<std::int64_t>& field) {
  if (text == "none") {
    field.reset();
    return true;
  }
  std::int64_t value = 0;
  if (!parse(text, value)) return false;
  field = value;
  return true;
}

template <class Enum>
requires std::is_enum_v<Enum> std::string text_of(Enum field) {
  return Names<Enum>::values[static_cast<std::size_t>(field)];
}
template <class Number>
requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) std::string text_of(Number field) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), field);
  return {buffer.data(), end};
}
std::string text_of(bool field) { return field ? "true" : "false"; }
std::string text_of(const std::string& field) { return field; }
std::string text_of(const std::optional<std::int64_t>& field) { return field ? text_of(*field) : "none"; }

template <class Options>
std::vector<Setting> listed(Options options) {
  std::vector<Setting> settings;
  visit(options, [&](const char* name, auto& field, const char* allowed, const char* help) {
    settings.push_back({name, text_of(field), allowed, help});
  });
  return settings;
}

template <class Options>
[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string> known;
  for (const Setting& setting : listed(Options{})) known.push_back(setting.name);
  const std::string near = nearest_name(name, known);
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  throw InvalidArgument(detail::concat("no option is called \"", name, "\"",
                                       near.empty() ? "" : "; did you mean \"" + near + "\"?", " (known: ", all, ")"));
}

template <class Options>
void set_by_name(Options& options, std::string_view name, std::string_view value) {
  bool found = false;
  visit(options, [&](const char* known, auto& field, const char* allowed, const char*) {
    if (name != known) return;
    found = true;
    auto parsed = field;
    SPECTRALCLIP_REQUIRE(parse(value, parsed), name, " = \"", value, "\" is not ", allowed);
    field = parsed;
  });
  if (!found) refuse_name<Options>(name);
}

// Levenshtein's, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<Setting> settings_of(const ClipOptions& options) { return listed(options); }
std::vector<Setting> settings_of(const ThresholdOptions& options) { return listed(options); }
std::vector<Setting> settings_of(const Rule& rule) { return listed(rule); }

void set_option(ClipOptions& options, std::string_view name, std::string_view value) {
  set_by_name(options, name, value);
}
void set_option(ThresholdOptions& options, std::string_view name, std::string_view value) {
  set_by_name(options, name, value);
}
void set_option(Rule& rule, std::string_view name, std::string_view value) { set_by_name(rule, name, value); }

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t distance = name.size() / 3 + 2;  // further than this is not a slip of the hand
  for (const std::string& one : known) {
    const std::size_t d = edit_distance(name, one);
    if (d >= distance) continue;
    distance = d;
    best = one;
  }
  return best;
}

}  // namespace spectralclip

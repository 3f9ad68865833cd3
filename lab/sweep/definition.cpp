// SPDX-License-Identifier: Apache-2.0
#include "sweep/definition.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "spectralclip/error.h"
#include "spectralclip/settings.h"

namespace spectralclip::lab {
namespace {

const std::vector<std::string> kTopKeys = {"name", "summary", "preset", "set", "sweep", "space"};
const std::vector<std::string> kSweepKeys = {"search",     "trials", "metric", "better",
                                             "best_seeds", "seed",   "seeds",  "ahead"};
const std::vector<std::string> kAxisKeys = {"low", "high", "scale", "points"};

std::string joined(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : prefix + "." + std::string(key);
}

void refuse_unknown_keys(const toml::table& table, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    const std::string hint =
        nearest.empty() ? fmt::format("known: {}", fmt::join(known, ", ")) : fmt::format("did you mean {}?", nearest);
    throw InvalidArgument(fmt::format("sweep: unknown key {}; {}", joined(where, name), hint));
  }
}

// Absent: `field` stays as it is. Integers are accepted where a float is wanted, not the other way round.
template <class T>
void read(const toml::table& table, const std::string& where, const char* key, T& field, const char* wanted) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const std::optional<T> value = node->value<T>();
  const bool exact = std::is_floating_point_v<T> ? node->is_number() : node->is<T>();
  if (!exact || !value) throw InvalidArgument(fmt::format("sweep: {} must be {}", joined(where, key), wanted));
  field = *value;
}

const toml::table& table_at(const toml::table& parent, const char* key) {
  static const toml::table empty;
  const toml::node* node = parent.get(key);
  if (node == nullptr) return empty;
  if (!node->is_table()) throw InvalidArgument(fmt::format("sweep: {} must be a table, [{}]", key, key));
  return *node->as_table();
}

std::string text_of(const toml::node& node, const std::string& key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  throw InvalidArgument(fmt::format("sweep: set.{} must be a number, a truth value or a string", key));
}

// "train.steps" = 1 and train.steps = 1 are the same to us.
void read_set(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>& set) {
  for (const auto& [key, node] : table) {
    const std::string name = joined(prefix, key.str());
    if (const toml::table* inner = node.as_table()) {
      read_set(*inner, name, set);
    } else {
      set[name] = text_of(node, name);
    }
  }
}

Axis axis_of(const toml::table& table, const std::string& key) {
  const std::string where = "space." + key;
  refuse_unknown_keys(table, kAxisKeys, where);
  for (const char* needed : {"low", "high"})
    if (!table.contains(needed)) throw InvalidArgument(fmt::format("sweep: {}.{} is missing", where, needed));
  Axis axis{.key = key};
  read(table, where, "low", axis.low, "a number");
  read(table, where, "high", axis.high, "a number");
  read(table, where, "points", axis.points, "an integer");
  std::string scale = "linear";
  read(table, where, "scale", scale, "a string");
  if (scale != "log" && scale != "linear")
    throw InvalidArgument(fmt::format("sweep: {}.scale = \"{}\"; allowed: log, linear", where, scale));
  axis.scale = scale == "log" ? Scale::log : Scale::linear;
  return axis;
}

// A table of tables only is a part of a dotted key.
void read_space(const toml::table& table, const std::string& prefix,
                std::vector<std::pair<toml::source_position, Axis>>& axes) {
  for (const auto& [key, node] : table) {
    const std::string name = joined(prefix, key.str());
    const toml::table* inner = node.as_table();
    if (inner == nullptr) throw InvalidArgument(fmt::format("sweep: space.{} must be a table", name));
    const bool part = !inner->empty() && std::all_of(inner->begin(), inner->end(),
                                                     [](const auto& entry) { return entry.second.is_table(); });
    if (part) {
      read_space(*inner, name, axes);
    } else {
      axes.emplace_back(node.source().begin, axis_of(*inner, name));
    }
  }
}

SearchSpace space_of(const toml::table& table) {
  std::vector<std::pair<toml::source_position, Axis>> axes;
  read_space(table, "", axes);
  std::stable_sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  SearchSpace space;
  for (auto& [position, axis] : axes) space.push_back(std::move(axis));
  return space;
}

toml::table parsed(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(
        fmt::format("sweep: line {}: {}", error.source().begin.line, std::string_view(error.description())));
  }
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::toml_formatter(toml::value<std::string>(text), toml::format_flags::none);
  return std::move(out).str();
}

// Numbers and truth values as such, if that gives the same text back.
std::string literal(const std::string& text) {
  try {
    const toml::table table = toml::parse("x = " + text);
    const toml::node* node = table.get("x");
    if (table.size() == 1 && !node->is_string() && text_of(*node, "x") == text) return text;
  } catch (const std::exception&) {  // not a literal
  }
  return quoted(text);
}

std::string number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

SweepDefinition parse_sweep(std::string_view text, std::string_view name) {
  const toml::table root = parsed(text);
  if (!root.contains("sweep") && !root.contains("space"))
    throw InvalidArgument(fmt::format("{} defines no sweep: it has neither [sweep] nor [space]", name));
  refuse_unknown_keys(root, kTopKeys, "");
  SweepDefinition definition{.name = std::string(name)};
  read(root, "", "name", definition.name, "a string");
  read(root, "", "summary", definition.summary, "a string");
  read(root, "", "preset", definition.preset, "a string");
  read_set(table_at(root, "set"), "", definition.set);
  const toml::table& sweep = table_at(root, "sweep");
  refuse_unknown_keys(sweep, kSweepKeys, "sweep");
  std::string search(name_of(definition.search));
  read(sweep, "sweep", "search", search, "a string");
  definition.search = search_named(search);
  read(sweep, "sweep", "trials", definition.trials, "an integer");
  read(sweep, "sweep", "metric", definition.metric, "a string");
  std::string better = "smaller";
  read(sweep, "sweep", "better", better, "a string");
  if (better != "smaller" && better != "larger")
    throw InvalidArgument(fmt::format("sweep.better = \"{}\"; allowed: smaller, larger", better));
  definition.larger_is_better = better == "larger";
  read(sweep, "sweep", "best_seeds", definition.best_seeds, "an integer");
  read(sweep, "sweep", "seeds", definition.seeds, "an integer");
  read(sweep, "sweep", "ahead", definition.ahead, "an integer");
  auto seed = static_cast<std::int64_t>(definition.seed);
  read(sweep, "sweep", "seed", seed, "an integer");
  if (seed < 0) throw InvalidArgument(fmt::format("sweep.seed = {}; allowed: 0 or more", seed));
  definition.seed = static_cast<std::uint64_t>(seed);
  definition.space = space_of(table_at(root, "space"));
  if (definition.search == SearchKind::grid && definition.trials == 0) definition.trials = grid_size(definition.space);
  validate(definition);
  return definition;
}

std::string to_toml(const SweepDefinition& definition) {
  std::string text = fmt::format("name = {}\nsummary = {}\npreset = {}\n", quoted(definition.name),
                                 quoted(definition.summary), quoted(definition.preset));
  text += "\n[set]\n";
  for (const auto& [key, value] : definition.set) text += fmt::format("{} = {}\n", quoted(key), literal(value));
  text += fmt::format(
      "\n[sweep]\nsearch = \"{}\"\ntrials = {}\nmetric = {}\nbetter = \"{}\"\nseed = {}\nseeds = {}\n"
      "best_seeds = {}\nahead = {}\n",
      name_of(definition.search), definition.trials, quoted(definition.metric),
      definition.larger_is_better ? "larger" : "smaller", definition.seed, definition.seeds, definition.best_seeds,
      definition.ahead);
  for (const Axis& axis : definition.space) {
    text += fmt::format("\n[space.{}]\nlow = {}\nhigh = {}\nscale = \"{}\"\n", quoted(axis.key), number(axis.low),
                        number(axis.high), axis.scale == Scale::log ? "log" : "linear");
    if (axis.points > 0) text += fmt::format("points = {}\n", axis.points);
  }
  return text;
}

void validate(const SweepDefinition& definition) {
  validate(definition.space);
  if (definition.preset.empty()) throw InvalidArgument("sweep: preset is missing: what shall a trial run?");
  if (definition.metric.empty()) throw InvalidArgument("sweep.metric is empty");
  if (definition.trials < 1)
    throw InvalidArgument(fmt::format("sweep.trials = {}; allowed: 1 or more", definition.trials));
  if (definition.best_seeds < 0)
    throw InvalidArgument(fmt::format("sweep.best_seeds = {}; allowed: 0 or more", definition.best_seeds));
  if (definition.seeds < 1)
    throw InvalidArgument(fmt::format("sweep.seeds = {}; allowed: 1 or more", definition.seeds));
  if (definition.ahead < 1)
    throw InvalidArgument(fmt::format("sweep.ahead = {}; allowed: 1 or more", definition.ahead));
  if (definition.set.contains("seed"))
    throw InvalidArgument("sweep: seed cannot be set for all trials: seed of [sweep] (or --seed) is their first one");
  for (const Axis& axis : definition.space) {
    if (definition.set.contains(axis.key))
      throw InvalidArgument(fmt::format("sweep: {} is both set and searched", axis.key));
  }
  if (definition.search != SearchKind::grid) return;
  if (const std::int64_t size = grid_size(definition.space); definition.trials != size) {
    throw InvalidArgument(
        fmt::format("sweep.trials = {}, but the grid has {} points; leave trials out", definition.trials, size));
  }
}

std::optional<std::string> first_difference(const SweepDefinition& before, const SweepDefinition& now) {
  SweepDefinition allowed = now;
  allowed.summary = before.summary;
  if (now.trials > before.trials) allowed.trials = before.trials;
  std::istringstream old_text(to_toml(before));
  std::istringstream new_text(to_toml(allowed));
  std::string table;
  for (;;) {
    std::string old_line;
    std::string new_line;
    const bool has_old = static_cast<bool>(std::getline(old_text, old_line));
    const bool has_new = static_cast<bool>(std::getline(new_text, new_line));
    if (!has_old && !has_new) return std::nullopt;
    if (old_line != new_line) {
      return fmt::format("{}{} before, {} now", table.empty() ? "" : table + " ",
                         old_line.empty() ? "nothing" : old_line, new_line.empty() ? "nothing" : new_line);
    }
    if (!old_line.empty() && old_line.front() == '[') table = old_line;
  }
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
#include "report/model_parts.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <set>
#include <string>

namespace spectralclip::lab::report {

Json number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<std::int64_t>(value);
  const std::string text = fmt::format("{:.6g}", value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);  // whatever the locale
  return rounded;
}

Json numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json make_series(const SeedCurve& curve) {
  Json series = {{"step", numbers(curve.step)}, {"seconds", numbers(curve.seconds)}, {"mean", numbers(curve.mean)}};
  if (std::none_of(curve.seeds.begin(), curve.seeds.end(), [](int seeds) { return seeds > 1; })) return series;
  series["low"] = numbers(curve.low);
  series["high"] = numbers(curve.high);
  series["deviation"] = numbers(curve.deviation);
  return series;
}

Json make_figure(const FigureText& text, const std::vector<std::string>& commands) {
  return {{"id", text.id},           {"kind", text.kind},   {"part", text.part},   {"title", text.title},
          {"caption", text.caption}, {"label", text.label}, {"commands", commands}};
}

Json make_axis(const std::string& title, bool log) { return {{"title", title}, {"log", log}}; }

std::string id_of(const std::string& text) {
  std::string id;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool capital = c >= 'A' && c <= 'Z';
    if (plain || capital)
      id += capital ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id.empty() ? "unnamed" : id;
}

std::string unused_id(const Json& figures, const std::string& id) {
  const auto is_taken = [&](const std::string& wanted) {
    return std::any_of(figures.begin(), figures.end(), [&](const Json& one) { return one["id"] == wanted; });
  };
  std::string candidate = id;
  for (int i = 2; is_taken(candidate); ++i) candidate = fmt::format("{}-{}", id, i);
  return candidate;
}

namespace {

// "spectralclip run SOURCE REST --seed N" in its parts; none for other commands.
struct RunCommand {
  std::string source, rest;
  std::uint64_t seed = 0;
};
std::optional<RunCommand> parsed(const std::string& command) {
  static const std::regex form("spectralclip run ([^ '\"]+)(.*) --seed ([0-9]{1,18})");
  std::smatch parts;
  if (!std::regex_match(command, parts, form)) return std::nullopt;
  return RunCommand{parts[1], parts[2], std::stoull(parts[3])};
}

// "--seed 4", "--seeds 1..3", "--seeds 1,4,9"
std::string seeds_text(const std::set<std::uint64_t>& seeds) {
  if (seeds.size() == 1) return fmt::format("--seed {}", *seeds.begin());
  if (*seeds.rbegin() - *seeds.begin() + 1 == seeds.size())
    return fmt::format("--seeds {}..{}", *seeds.begin(), *seeds.rbegin());
  return fmt::format("--seeds {}", fmt::join(seeds, ","));
}

}  // namespace

// Runs that differ in the seed alone, or in the preset alone, share a command.
std::vector<std::string> commands_of(const std::vector<const Group*>& groups) {
  std::vector<std::string> others;
  Named<std::set<std::uint64_t>> seeds;  // by source and rest
  for (const Group* group : groups)
    for (const Run* run : group->runs) {
      if (const auto command = parsed(run->command))
        find_or_add(seeds, command->source + "\n" + command->rest).insert(command->seed);
      else if (!run->command.empty() && std::find(others.begin(), others.end(), run->command) == others.end())
        others.push_back(run->command);
    }
  Named<std::string> sources;  // by what follows them
  for (const auto& [key, of_one] : seeds) {
    const std::size_t end = key.find('\n');
    std::string& list = find_or_add(sources, key.substr(end + 1) + " " + seeds_text(of_one));
    list += (list.empty() ? "" : " ") + key.substr(0, end);
  }
  std::vector<std::string> commands;
  for (const auto& [rest, list] : sources) commands.push_back("spectralclip run " + list + rest);
  commands.insert(commands.end(), others.begin(), others.end());
  return commands;
}

std::string counted(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

Json make_cell(const std::string& text, double sort) {
  Json cell = {{"text", text}};
  if (std::isfinite(sort)) cell["sort"] = number(sort);
  return cell;
}

Json make_table(const std::vector<std::string>& columns, Json rows) {
  return {{"columns", columns}, {"rows", std::move(rows)}};
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
#include "report/model_parts.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
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

std::vector<std::string> commands_of(const std::vector<const Group*>& groups) {
  std::vector<std::string> commands;
  for (const Group* group : groups)
    for (const Run* run : group->runs)
      if (!run->command.empty() && std::find(commands.begin(), commands.end(), run->command) == commands.end())
        commands.push_back(run->command);
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

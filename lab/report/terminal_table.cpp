// SPDX-License-Identifier: Apache-2.0
#include "report/terminal_table.h"

#include <fmt/core.h>

#include "report/groups.h"

namespace spectralclip::lab::report {
namespace {

using Row = std::vector<std::string>;

// Columns a terminal needs for it: one a code point, which holds for the letters and signs that names are made of.
std::size_t width_of(const std::string& text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

// C0 and C1 controls (the latter are C2 80 … C2 9F in UTF-8) could move the cursor or change colours.
std::string printable(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool second_set = c == 0xC2 && next >= 0x80 && next < 0xA0;
    shown += c < 0x20 || c == 0x7F || second_set ? '?' : text[i];
    i += second_set ? 1 : 0;
  }
  return shown;
}

Row row_of(const Group& group, bool is_best) {
  return {is_best ? "*" : " ",
          printable(group.name),
          spread(group.main),
          spread(group.validation),
          fmt::format("{}", group.runs.size()),
          fmt::format("{}", group.diverged),
          fmt::format("{}", group.unfinished),
          group.seconds.count > 0 ? fmt::format("{:.3g}", group.seconds.mean) : "–"};
}

// Columns without news: no validation loss anywhere, nothing unfinished.
void drop_idle_columns(std::vector<Row>& rows, const std::vector<const Group*>& groups) {
  bool validation = false, unfinished = false;
  for (const Group* group : groups) {
    validation = validation || (group->validation.count > 0 && group->main_result != "val_loss");
    unfinished = unfinished || group->unfinished > 0;
  }
  for (Row& row : rows) {
    if (!unfinished) row.erase(row.begin() + 6);
    if (!validation) row.erase(row.begin() + 3);
  }
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return left ? text + space : space + text;
}

std::string laid_out(const std::vector<Row>& rows, bool colour) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const Row& row : rows) {
    std::string line = row[0];
    for (std::size_t i = 1; i < row.size(); ++i) line += (i == 1 ? " " : "  ") + padded(row[i], widths[i], i == 1);
    const bool marked = colour && row[0] == "*";
    text += marked ? "\x1b[1;32m" + line + "\x1b[0m\n" : line + "\n";
  }
  return text;
}

std::string table_of(const std::string& task, const std::vector<const Group*>& groups, const TableOptions& options) {
  const std::string main = groups.front()->main_result;
  std::vector<Row> rows = {{" ", "name", main.empty() ? "main result" : printable(main), "val_loss", "seeds",
                            "diverged", "unfinished", "s/run"}};
  const Group* best = groups.size() > 1 ? best_of(groups) : nullptr;
  for (const Group* group : ranked(groups)) rows.push_back(row_of(*group, group == best));
  drop_idle_columns(rows, groups);
  return printable(task) + "\n" + laid_out(rows, options.colour);
}

}  // namespace

std::string terminal_table(const std::vector<Run>& runs, const TableOptions& options) {
  const std::vector<Group> groups = make_groups(runs);
  std::string text;
  for (const std::string& task : tasks_of(groups))
    text += (text.empty() ? "" : "\n") + table_of(task, groups_of(groups, task), options);
  return text;
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Pieces of the JSON model that page/report.js draws. Texts are plain text: the page never takes them for HTML.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/groups.h"
#include "report/run_data.h"
#include "report/thin.h"

namespace spectralclip::lab::report {

// Six digits (a screen shows three); null when not finite; an integer when it is one. Keeps the page small.
[[nodiscard]] Json number(double value);
[[nodiscard]] Json numbers(std::span<const double> values);

// A curve of ModelParts::series; the spread only when some point has more than one seed.
[[nodiscard]] Json make_series(const SeedCurve& curve);

struct FigureText {
  std::string id;    // unique on the page; data-figure
  std::string kind;  // the function of report.js that draws it
  std::string part;  // heading that it stands under
  std::string title;
  std::string caption;  // what one sees
  std::string label;    // for those who do not see it: the key numbers
};
[[nodiscard]] Json make_figure(const FigureText& text, const std::vector<std::string>& commands);

[[nodiscard]] Json make_axis(const std::string& title, bool log);

// Lower-case letters, digits and dashes: for ids. Other characters become dashes.
[[nodiscard]] std::string id_of(const std::string& text);
// `id`, or `id-2`, … when a figure already has it.
[[nodiscard]] std::string unused_id(const Json& figures, const std::string& id);

[[nodiscard]] std::vector<std::string> commands_of(const std::vector<const Group*>& groups);

// "1 seed", "3 seeds"
[[nodiscard]] std::string counted(std::size_t count, const std::string& noun);

// A cell shows `text` and sorts by `sort`.
[[nodiscard]] Json make_cell(const std::string& text, double sort = kNothing);
[[nodiscard]] Json make_table(const std::vector<std::string>& columns, Json rows);

}  // namespace spectralclip::lab::report

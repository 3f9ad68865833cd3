// SPDX-License-Identifier: Apache-2.0
// One self-contained HTML text from the template, its style and scripts, and the model.
#pragma once

#include <string>
#include <string_view>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct PageFiles {
  std::string_view html, css, plotly, figures, sweeps, script;
};

// The texts of page/ and plotly.min.js as they were embedded when the program was built.
[[nodiscard]] PageFiles embedded_page();

// Replaces {{title}}, {{style}}, {{plotly}}, {{model}}, {{figures}}, {{sweeps}} and {{script}} in the template, which
// must have them in this order. Nothing of the model can end its script element or become markup.
[[nodiscard]] std::string render_page(const PageFiles& files, const Json& model);

[[nodiscard]] std::string html_escape(std::string_view text);
// JSON for the inside of <script type="application/json">: < > & and the line separators of JavaScript as \u escapes;
// bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string script_json(const Json& value);

}  // namespace spectralclip::lab::report

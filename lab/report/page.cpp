// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "embedded/report_page.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::report {
namespace {

std::string_view embedded_file(std::string_view name) {
  for (const embedded::EmbeddedFile& file : embedded::report_page())
    if (file.name == name) return file.text;
  throw Error(fmt::format("report: {} is not embedded in this program", name));
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

PageFiles embedded_page() {
  return {embedded_file("report.html"), embedded_file("report.css"), embedded_file("plotly.min.js"),
          embedded_file("figures.js"),  embedded_file("sweeps.js"),  embedded_file("report.js")};
}

std::string html_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  return escaped;
}

std::string script_json(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::array kEscapes = {std::pair("<", "\\u003c"), std::pair(">", "\\u003e"), std::pair("&", "\\u0026"),
                                   std::pair("\xe2\x80\xa8", "\\u2028"), std::pair("\xe2\x80\xa9", "\\u2029")};
  for (const auto& [character, escape] : kEscapes) text = replace_all(std::move(text), character, escape);
  return text;
}

// The template is cut at its marks first, so that a mark within an inserted text stays text.
std::string render_page(const PageFiles& files, const Json& model) {
  const std::string title = html_escape(model.value("title", ""));
  const std::string json = script_json(model);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{title}}", title},           {"{{style}}", files.css},     {"{{plotly}}", files.plotly}, {"{{model}}", json},
      {"{{figures}}", files.figures}, {"{{sweeps}}", files.sweeps}, {"{{script}}", files.script}};
  std::string page;
  std::string_view rest = files.html;
  for (const auto& [mark, text] : parts) {
    const std::size_t at = rest.find(mark);
    if (at == std::string_view::npos) throw Error(fmt::format("report.html has no {} where it is expected", mark));
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

}  // namespace spectralclip::lab::report

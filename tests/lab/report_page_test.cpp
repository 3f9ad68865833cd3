// SPDX-License-Identifier: Apache-2.0
// The page: nothing from a file becomes markup, everything is inside, and the file is written whole.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "lab/report_scratch.h"
#include "report/page.h"
#include "report/report.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::report {
namespace {

using testing::finished_summary;
using testing::RunFolder;

constexpr const char* kEvil = "</script><script>alert(1)</script><!--\"'&";

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ReportPage, JsonForAScriptHasNoMarkupAndReadsBackEqual) {
  const Json value = {{"name", std::string(kEvil) + "\xe2\x80\xa8"}};
  const std::string text = script_json(value);
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(text.find("\xe2\x80\xa8"), std::string::npos);
  EXPECT_EQ(Json::parse(text), value);
}

TEST(ReportPage, BytesThatAreNotTextDoNotThrow) {
  EXPECT_EQ(script_json(Json("a\xff"
                             "b")),
            "\"a\xef\xbf\xbd"
            "b\"");
}

TEST(ReportPage, HtmlIsEscaped) { EXPECT_EQ(html_escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"); }

constexpr const char* kTemplate = "T{{title}} S{{style}} P{{plotly}} M{{model}} {{figures}}{{sweeps}}{{script}}.";

TEST(ReportPage, MarksWithinInsertedTextsStayText) {
  const PageFiles files = {kTemplate, "{{model}}", "{{script}}", "f", "s", "{{title}}"};
  EXPECT_EQ(render_page(files, {{"title", "{{style}}<"}}),
            "T{{style}}&lt; S{{model}} P{{script}} M{\"title\":\"{{style}}\\u003c\"} fs{{title}}.");
}

TEST(ReportPage, ATemplateWithoutAMarkIsAnError) {
  EXPECT_THROW((void)render_page({"{{title}}{{style}}", "", "", "", "", ""}, {{"title", ""}}), Error);
}

TEST(ReportPage, EmbeddedFilesCannotEndTheirElements) {
  const PageFiles files = embedded_page();
  for (const std::string_view script : {files.plotly, files.figures, files.sweeps, files.script}) {
    EXPECT_FALSE(script.empty());
    EXPECT_EQ(script.find("</script"), std::string_view::npos);
  }
  EXPECT_EQ(files.css.find("</style"), std::string_view::npos);
  EXPECT_GT(files.plotly.size(), 1000000u);
}

TEST(ReportPage, IsOneFileWithoutAddresses) {
  const PageFiles files = embedded_page();
  for (const std::string_view text : {files.html, files.css, files.figures, files.sweeps})
    EXPECT_EQ(text.find("http"), text.find("http-equiv"));
  EXPECT_NE(files.html.find("default-src 'none'"), std::string_view::npos);
}

TEST(WriteReport, WritesTheWholePageAndCounts) {
  const RunFolder folder;
  Json summary = finished_summary(kEvil, 1, 0.5);
  folder.write("runs/a/summary.json", summary.dump());
  folder.write("runs/a/metrics.jsonl", "{\"step\":1,\"seconds\":1,\"loss\":2}\nbroken\n");
  const std::string file = folder.path("report.html");
  const ReportResult result = write_report({folder.path("runs")}, file, {.title = kEvil, .command = kEvil});
  EXPECT_EQ(result.runs, 1u);
  EXPECT_EQ(result.sweeps, 0u);
  EXPECT_EQ(result.figures, 2u);
  EXPECT_EQ(result.warnings.size(), 1u);
  const std::string page = content(file);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(occurrences(page, "</script>"), 3u);
  EXPECT_NE(page.find("<title>&lt;/script&gt;"), std::string::npos);
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
}

TEST(WriteReport, AnErrorLeavesTheOldFile) {
  const RunFolder folder;
  folder.write("report.html", "old");
  folder.write("empty/x", "");
  EXPECT_THROW((void)write_report({folder.path("empty")}, folder.path("report.html")), InvalidArgument);
  EXPECT_EQ(content(folder.path("report.html")), "old");
  folder.write("runs/summary.json", finished_summary("a", 1, 0.5).dump());
  EXPECT_THROW((void)write_report({folder.path("runs")}, folder.path("no/such/report.html")), StateFileError);
}

}  // namespace
}  // namespace spectralclip::lab::report

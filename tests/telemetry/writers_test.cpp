// SPDX-License-Identifier: Apache-2.0
// What the writers write, read back: JSON by a strict reader, CSV by an RFC 4180 splitter, and streams that fail.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "constants.h"
#include "spectralclip/error.h"
#include "spectralclip/telemetry.h"
#include "telemetry/strict_json.h"

namespace spectralclip {
namespace {

using testing::Json;
using testing::JsonReader;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

LayerReport clipped_layer() {
  LayerReport layer;
  layer.name = "h.0.fc.weight";
  layer.rule = "matrix (out, rest)";
  layer.has_gradient = true;
  layer.steps = 8;
  layer.steps_clipped = 2;
  layer.clip.tau = 0.1;
  layer.clip.sigma_max = 1.0 / 3;
  layer.clip.clipped = 2;
  layer.clip.removed_energy = 0.25;
  layer.clip.sigma_bound = 0.10000000000000002;
  layer.clip.bound_kind = BoundKind::estimated;
  layer.clip.passes = 2;
  layer.clip.seconds = {0.5, 0.25, 0.125};
  return layer;
}

LayerReport quiet_layer(std::string name) {
  LayerReport layer;
  layer.name = std::move(name);
  layer.has_gradient = true;
  layer.steps = 1;
  layer.clip.tau = kInfinity;
  return layer;
}

StepReport step_of(const std::vector<LayerReport>& layers, std::int64_t step = 12) {
  StepReport report;
  report.step = step;
  report.total_norm = 2.5;
  report.norm_after = 1e-300;
  report.layers_clipped = 1;
  report.layers_not_finite = 3;
  report.layers_rank_exhausted = 4;
  report.layers_not_converged = 5;
  report.layers_out_of_range = 6;
  report.layers_out_of_memory = 7;
  report.layers = layers;
  return report;
}

std::string jsonl(const StepReport& report, const ExtraFields& extra = {}, const TelemetryOptions& options = {}) {
  std::ostringstream out;
  JsonlWriter(out, options).write(report, extra);
  return out.str();
}

Json parsed(const std::string& line) {
  const auto json = JsonReader::read(line);
  if (!json) throw std::runtime_error("not JSON: " + line);
  return *json;
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  for (const char* bad : {"", "{", "{\"a\":}", "[1,]", "{\"a\":1,\"a\":2}", "nan", "01", "1.", "+1", ".5", "'a'",
                          "\"\t\"", "\"\\x\"", "[1] 2", "{a:1}", "Infinity", "1e"}) {
    EXPECT_FALSE(JsonReader::read(bad)) << bad;
  }
  EXPECT_EQ(JsonReader::read(" [ -1.5e+2 , \"a\\u0041\\n\" ] ")->items()[0].number(), -150);
}

TEST(Jsonl, OneObjectALineWithTheAgreedKeys) {
  const std::vector<LayerReport> layers = {clipped_layer()};
  EXPECT_EQ(jsonl(step_of(layers), {{"loss", 3.25}}),
            "{\"step\":12,\"loss\":3.25,\"grad_norm_pre\":2.5,\"grad_norm_post\":1e-300,\"layers_clipped\":1,"
            "\"layers_not_finite\":3,\"layers_rank_exhausted\":4,\"layers_not_converged\":5,\"layers_out_of_range\":6,"
            "\"layers_out_of_memory\":7,"
            "\"layers\":[{\"name\":\"h.0.fc.weight\",\"sigma1\":0.3333333333333333,\"tau\":0.1,"
            "\"n_clipped\":2,\"saturated\":false,\"status\":\"ok\",\"rule\":\"matrix (out, rest)\","
            "\"removed_energy\":0.25,\"sigma_bound\":0.10000000000000002,\"bound\":\"estimated\",\"passes\":2,"
            "\"ms\":875,\"clipped_share\":0.25}]}\n");
}

TEST(Jsonl, DoublesReadBackBitEqualAndNonFiniteOnesAreNull) {
  const std::vector<double> values = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789012345680.0, 2.5e-7, -0.0};
  ExtraFields extra = {{"nan", kNan}, {"inf", kInfinity}, {"minus_inf", -kInfinity}};
  for (std::size_t i = 0; i < values.size(); ++i) extra.emplace_back("x" + std::to_string(i), values[i]);
  const Json object = parsed(jsonl(step_of({}), extra));
  for (const char* name : {"nan", "inf", "minus_inf"}) EXPECT_TRUE(object.at(name).is_null()) << name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(object.at("x" + std::to_string(i)).number(), values[i]);
  }
  EXPECT_TRUE(object.at("layers").items().empty());
}

TEST(Jsonl, StringsSurviveWhateverTheyHold) {
  std::string controls;
  for (char c = 0; c < 0x20; ++c) controls += c;
  const std::vector<std::string> sound = {controls, "quote \" backslash \\ slash /", "\x7F",
                                          "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF"};
  for (const std::string& name : sound) {
    const std::vector<LayerReport> layers = {quiet_layer(name)};
    EXPECT_EQ(parsed(jsonl(step_of(layers))).at("layers").items().at(0).at("name").text(), name);
  }
}

TEST(Jsonl, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xFFz", "a" + r + "z"},            // never a UTF-8 byte
      {"a\x80z", "a" + r + "z"},            // continuation without a start
      {"a\xC3", "a" + r},                   // cut short
      {"\xC3(", r + "("},                   // wrong continuation
      {"\xC0\xAF", r + r},                  // overlong
      {"\xE0\x80\xAF", r + r + r},          // overlong
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // beyond U+10FFFF
      {"\xF0\x9F\x98", r + r + r},          // cut short
  };
  for (const auto& [name, expected] : cases) {
    const std::vector<LayerReport> layers = {quiet_layer(name)};
    EXPECT_EQ(parsed(jsonl(step_of(layers))).at("layers").items().at(0).at("name").text(), expected);
  }
}

TEST(Jsonl, SkippedSaturatedAndUnseenLayers) {
  LayerReport skipped = quiet_layer("wte");
  skipped.treatment = Treatment::skip;
  skipped.steps = 0;
  LayerReport saturated = clipped_layer();
  saturated.clip.status = ClipStatus::rank_exhausted;
  LayerReport unseen = quiet_layer("unseen");
  unseen.has_gradient = false;
  LayerReport unsure = clipped_layer();
  unsure.clip.status = ClipStatus::not_converged;
  LayerReport beyond = quiet_layer("beyond");
  beyond.clip.status = ClipStatus::out_of_range;
  const std::vector<LayerReport> layers = {skipped, saturated, unseen, unsure, beyond};
  const Json object = parsed(jsonl(step_of(layers)));
  const auto& items = object.at("layers").items();
  ASSERT_EQ(items.size(), 4U);
  for (const char* name : {"sigma1", "tau", "sigma_bound", "clipped_share"}) EXPECT_TRUE(items[0].at(name).is_null());
  EXPECT_TRUE(items[1].at("saturated").flag());
  EXPECT_EQ(items[1].at("status").text(), "rank_exhausted");
  EXPECT_EQ(items[2].at("status").text(), "not_converged");
  EXPECT_FALSE(items[2].at("saturated").flag()) << "the columns would have sufficed";
  EXPECT_EQ(items[3].at("status").text(), "out_of_range");
}

TEST(Jsonl, OptionsChooseStepsAndLayers) {
  LayerReport broken = quiet_layer("fc.bias");
  broken.clip.status = ClipStatus::not_finite;
  LayerReport unsure = quiet_layer("h.2.fc.bias");
  unsure.clip.status = ClipStatus::not_converged;
  const std::vector<LayerReport> layers = {clipped_layer(), quiet_layer("h.1.fc.weight"), broken, unsure};
  const TelemetryOptions third = {.every = 3, .name_pattern = "*.weight", .only_clipped = false};
  EXPECT_EQ(jsonl(step_of(layers, 4), {}, third), "");
  EXPECT_EQ(parsed(jsonl(step_of(layers, 6), {}, third)).at("layers").items().size(), 2U);
  const TelemetryOptions eventful = {.every = 1, .name_pattern = "*", .only_clipped = true};
  const Json object = parsed(jsonl(step_of(layers), {}, eventful));
  ASSERT_EQ(object.at("layers").items().size(), 3U);
  EXPECT_EQ(object.at("layers").items()[1].at("status").text(), "not_finite");
  EXPECT_EQ(object.at("layers").items()[2].at("status").text(), "not_converged") << "a step to look at, too";
}

TEST(Jsonl, RefusesBadOptionsAndRepeatedKeys) {
  std::ostringstream out;
  EXPECT_THROW(JsonlWriter(out, {.every = 0, .name_pattern = "*", .only_clipped = false}), InvalidArgument);
  EXPECT_THROW(CsvWriter(out, {.every = -1, .name_pattern = "*", .only_clipped = false}), InvalidArgument);
  JsonlWriter writer(out);
  for (const ExtraFields& extra : {ExtraFields{{"step", 1}}, ExtraFields{{"layers", 1}},
                                   ExtraFields{{"layers_not_converged", 1}}, ExtraFields{{"lr", 1}, {"lr", 2}}}) {
    EXPECT_THROW(writer.write(step_of({}), extra), InvalidArgument) << extra.back().first;
  }
  EXPECT_EQ(out.str(), "");
}

TEST(Writers, IgnoreTheStreamsFormatting) {
  const std::vector<LayerReport> layers = {clipped_layer()};
  std::ostringstream out;
  out << std::setw(40) << std::hex << std::showpos << std::setprecision(2) << std::fixed;
  JsonlWriter(out).write(step_of(layers));
  EXPECT_EQ(out.str(), jsonl(step_of(layers)));
  EXPECT_EQ(out.width(), 40);
  EXPECT_EQ(out.precision(), 2);
}

// Splits by RFC 4180: quoted fields may hold commas, line ends and doubled quotes.
std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows = {{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& field = rows.back().back();
    if (text[i] == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      field += text[++i];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (text[i] == '\n' && !quoted) {
      rows.push_back({""});
    } else {
      field += text[i];
    }
  }
  rows.pop_back();  // after the last line end
  return rows;
}

TEST(Csv, HeaderOnceThenARowALayer) {
  const std::vector<LayerReport> layers = {clipped_layer(), quiet_layer("b")};
  std::ostringstream out;
  CsvWriter writer(out);
  writer.write(step_of(layers, 1));
  writer.write(step_of(layers, 2));
  const auto rows = csv_rows(out.str());
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0],
            (std::vector<std::string>{"step", "name", "sigma1", "tau", "n_clipped", "saturated", "status", "rule",
                                      "removed_energy", "sigma_bound", "bound", "passes", "ms", "clipped_share"}));
  EXPECT_EQ(rows[1], (std::vector<std::string>{"1", "h.0.fc.weight", "0.3333333333333333", "0.1", "2", "false", "ok",
                                               "matrix (out, rest)", "0.25", "0.10000000000000002", "estimated", "2",
                                               "875", "0.25"}));
  EXPECT_EQ(rows[4][0], "2");
  EXPECT_EQ(rows[4][3], "");  // tau = infinity
}

TEST(Csv, QuotesOnlyWhereNeeded) {
  const std::vector<std::string> names = {"plain", "a,b", "say \"x\"", "line\nbreak", "cr\rhere", " space "};
  std::vector<LayerReport> layers;
  for (const std::string& name : names) layers.push_back(quiet_layer(name));
  std::ostringstream out;
  CsvWriter(out).write(step_of(layers));
  const auto rows = csv_rows(out.str());
  ASSERT_EQ(rows.size(), names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(rows[i + 1][1], names[i]);
  EXPECT_NE(out.str().find("12,\"say \"\"x\"\"\","), std::string::npos);
  EXPECT_NE(out.str().find("12,plain,"), std::string::npos);
}

TEST(Csv, AQuietRunIsATableWithoutRows) {
  const std::vector<LayerReport> layers = {quiet_layer("a")};
  std::ostringstream out;
  CsvWriter writer(out, {.every = 1, .name_pattern = "*", .only_clipped = true});
  writer.write(step_of(layers, 1));
  writer.write(step_of(layers, 2));
  EXPECT_EQ(csv_rows(out.str()).size(), 1U);
}

// Takes `room` characters, then fails like a full disk.
class FullDisk final : public std::streambuf {
 public:
  explicit FullDisk(std::streamsize room) : room_(room) {}

 protected:
  std::streamsize xsputn(const char*, std::streamsize count) override { return std::min(count, room_); }
  int_type overflow(int_type) override { return traits_type::eof(); }

 private:
  std::streamsize room_;
};

TEST(Writers, AStreamThatFailsIsAnError) {
  const std::vector<LayerReport> layers = {clipped_layer()};
  FullDisk disk(10);
  std::ostream out(&disk);
  EXPECT_THROW(JsonlWriter(out).write(step_of(layers)), Error);
  out.clear();
  CsvWriter csv(out);
  EXPECT_THROW(csv.write(step_of(layers)), Error);
}

// A buffered file notices only when flushed.
TEST(Writers, AFullDeviceIsNoticedInTheStepThatMetIt) {
  std::ofstream full("/dev/full");
  if (!full) GTEST_SKIP() << "no /dev/full on this system";
  EXPECT_THROW(JsonlWriter(full).write(step_of({})), Error);
}

}  // namespace
}  // namespace spectralclip

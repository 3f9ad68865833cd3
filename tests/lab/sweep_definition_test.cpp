// SPDX-License-Identifier: Apache-2.0
// Definitions as text, and those among the presets.
#include <gtest/gtest.h>

#include "spectralclip/error.h"
#include "sweep/definition.h"
#include "sweep_program.h"

namespace spectralclip::lab {
namespace {

constexpr const char* kText = R"(
summary = "one line"
preset = "mlp"
[set]
"train.steps" = 10000
optimizer.kind = "sgdm"
"clip.rank" = "8"
optimizer.eps = 1e-8
optimizer.nesterov = true
[sweep]
search = "random"
trials = 60
metric = "val_loss"
better = "larger"
best_seeds = 2
seed = 7
[space."optimizer.lr"]
low = 1e-4
high = 1e-1
scale = "log"
[space.clip.quantile]
low = 0.5
high = 1
)";

std::string refusal(const std::string& text) {
  try {
    (void)parse_sweep(text, "test");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(SweepDefinition, IsReadAndSurvivesTheRoundTrip) {
  const SweepDefinition read = parse_sweep(kText, "test");
  for (const SweepDefinition& d : {read, parse_sweep(to_toml(read), "other")}) {
    EXPECT_EQ(d.name, "test");
    EXPECT_EQ(d.preset, "mlp");
    EXPECT_EQ(d.search, SearchKind::random);
    EXPECT_EQ(d.trials, 60);
    EXPECT_EQ(d.metric, "val_loss");
    EXPECT_TRUE(d.larger_is_better);
    EXPECT_EQ(d.best_seeds, 2);
    EXPECT_EQ(d.seed, 7U);
    const std::map<std::string, std::string> set = {{"clip.rank", "8"},
                                                    {"optimizer.eps", "1e-08"},
                                                    {"optimizer.kind", "sgdm"},
                                                    {"optimizer.nesterov", "true"},
                                                    {"train.steps", "10000"}};
    EXPECT_EQ(d.set, set);
    ASSERT_EQ(d.space.size(), 2U);
    EXPECT_EQ(d.space[0].key, "optimizer.lr");  // in the order of the text
    EXPECT_EQ(d.space[0].scale, Scale::log);
    EXPECT_EQ(d.space[0].low, 1e-4);
    EXPECT_EQ(d.space[1].key, "clip.quantile");
    EXPECT_EQ(d.space[1].high, 1.0);
  }
  EXPECT_EQ(to_toml(parse_sweep(to_toml(read), "x")), to_toml(read));
}

TEST(SweepDefinition, TextThatNeedsQuotingSurvivesToo) {
  SweepDefinition d = testing::small_sweep(SearchKind::random, 5);
  d.summary = "a \"quoted\" line\\ with\ttabs";
  d.set = {{"a.b", "1_000"}, {"c", "x = 1\ny = 2"}, {"d", "nan"}, {"e", ""}, {"f", "0.1"}, {"g", "1.50"}};
  const SweepDefinition back = parse_sweep(to_toml(d), "");
  EXPECT_EQ(back.set, d.set);
  EXPECT_EQ(back.summary, d.summary);
}

TEST(SweepDefinition, RefusesWithANameAndAHint) {
  EXPECT_NE(refusal(replaced(kText, "trials", "trails")).find("unknown key sweep.trails; did you mean trials?"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "summary", "sumary")).find("did you mean summary?"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "scale", "scales")).find("space.optimizer.lr.scales; did you mean scale?"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "\"random\"", "\"bayes\"")).find("allowed: grid, random, global"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "\"log\"", "\"ln\"")).find("allowed: log, linear"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "trials = 60", "trials = 6.5")).find("sweep.trials must be an integer"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "trials = 60", "trials = 0")).find("1 or more"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "seed = 7", "seed = -7")).find("sweep.seed = -7"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "low = 1e-4", "")).find("space.optimizer.lr.low is missing"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "low = 1e-4", "low = \"x\"")).find("must be a number"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "preset = \"mlp\"", "")).find("preset is missing"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "clip.rank", "optimizer.lr")).find("both set and searched"), std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "[sweep]", "[sweep")).find("line 10"), std::string::npos);
  EXPECT_NE(refusal("preset = \"a\"\n[sweep]\ntrials = 3").find("empty"), std::string::npos);
}

TEST(SweepDefinition, AGridCountsItsOwnTrials) {
  const std::string text = "preset = \"a\"\n[sweep]\nsearch = \"grid\"\n[space.x]\nlow = 0\nhigh = 1\npoints = 5\n";
  EXPECT_EQ(parse_sweep(text, "g").trials, 5);
  EXPECT_NE(refusal(replaced(text, "search", "trials = 6\nsearch")).find("the grid has 5 points"), std::string::npos);
}

TEST(SweepDefinition, DifferencesAreNamedButMoreTrialsAreNone) {
  const SweepDefinition before = parse_sweep(kText, "test");
  SweepDefinition now = before;
  now.trials = 100;
  now.summary = "another line";
  EXPECT_FALSE(first_difference(before, now));
  EXPECT_TRUE(first_difference(now, before));  // fewer
  now = before;
  now.metric = "train_loss";
  EXPECT_EQ(first_difference(before, now).value_or(""),
            "[sweep] metric = \"val_loss\" before, metric = \"train_loss\" now");
  now = before;
  now.space[1].high = 0.9;
  EXPECT_NE(first_difference(before, now).value_or("").find("high = 1.0 before, high = 0.9 now"), std::string::npos);
}

TEST(SweepDefinition, PresetsHaveThePapersRangesAndCounts) {
  const auto load = [](const std::string& name) {
    return parse_sweep(testing::read_text("presets/" + name + ".toml"), name);
  };
  struct Row {
    const char* name;
    const char* key;  // beside the learning rate
    double low, high;
  };
  for (const Row& row :
       {Row{"sgdm-norm", "clip.max_norm", 0.01, 10}, Row{"sgdm-spectral-constant", "clip.tau", 0.01, 10},
        Row{"sgdm-spectral-ema", nullptr, 0, 0}, Row{"sgdm-spectral-quantile", "clip.quantile", 0.5, 0.99},
        Row{"adam", nullptr, 0, 0}, Row{"adam-norm", "clip.max_norm", 0.01, 10}}) {
    const SweepDefinition d = load(std::string("sweep-mlp-heavy-tail-") + row.name);
    EXPECT_EQ(d.preset, std::string("mlp-heavy-tail-") + row.name);
    EXPECT_TRUE(std::filesystem::exists("presets/" + d.preset + ".toml"));
    EXPECT_EQ(d.search, SearchKind::global);
    EXPECT_EQ(d.space[0].key, "optimizer.lr");
    EXPECT_EQ(d.space[0].scale, Scale::log);
    EXPECT_EQ(d.space[0].low, 1e-4);
    EXPECT_EQ(d.space[0].high, 1e-1);
    EXPECT_EQ(d.trials, row.key != nullptr ? 300 : 100);
    ASSERT_EQ(d.space.size(), row.key != nullptr ? 2U : 1U);
    if (row.key == nullptr) continue;
    EXPECT_EQ(d.space[1].key, row.key);
    EXPECT_EQ(d.space[1].scale, Scale::linear);
    EXPECT_EQ(d.space[1].low, row.low);
    EXPECT_EQ(d.space[1].high, row.high);
  }
  for (const char* name : {"heatmap-mlp-norm", "heatmap-mlp-spectral"}) {
    const SweepDefinition d = load(name);
    EXPECT_EQ(d.search, SearchKind::grid);
    EXPECT_EQ(d.trials, 144);
    EXPECT_EQ(d.set.at("train.steps"), "10000");
    EXPECT_EQ(d.space[1].scale, Scale::log);
  }
}

}  // namespace
}  // namespace spectralclip::lab

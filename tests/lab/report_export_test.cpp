// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "report/export.h"

namespace spectralclip::lab::report {
namespace {

Collection small_collection() {
  Collection collection;
  Run run;
  run.directory = "runs/a, b";
  run.name = "say \"a\"";
  run.seed = 3;
  run.status = "finished";
  run.step = run.steps = 2;
  run.settings["optimizer.lr"] = "0.1";
  run.results = {{"train_loss", 0.1}, {"steps_to_goal", nullptr}};
  run.metrics.emplace_back("loss", MetricSeries{{1, 2}, {0.5, 1}, {1.0 / 3.0, 1e-300}});
  run.layers.emplace_back("w", LayerSeries{.step = {1}, .sigma = {2}, .tau = {kNothing}});
  collection.runs.push_back(run);
  run.seed = 4;
  run.settings = {{"clip.kind", "none"}};
  collection.runs.push_back(run);
  Sweep sweep;
  sweep.directory = "s";
  sweep.trials.push_back({.number = 1, .values = {{"optimizer.lr", 1e-4}}, .status = "finished", .value = 2.5});
  collection.sweeps.push_back(sweep);
  return collection;
}

const Table& named(const std::vector<Table>& tables, const std::string& name) {
  for (const Table& table : tables)
    if (table.name == name) return table;
  throw std::runtime_error("no table " + name);
}

TEST(Export, HasATableForEachKindThatIsThere) {
  const std::vector<Table> tables = tables_of(small_collection());
  ASSERT_EQ(tables.size(), 4U) << "no spectra were recorded";
  for (const Table& table : tables)
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
  const Table& metrics = named(tables, "metrics");
  ASSERT_EQ(metrics.rows.size(), 4U);
  EXPECT_EQ(metrics.rows[0][6], "0.3333333333333333");
  EXPECT_EQ(std::stod(metrics.rows[1][6]), 1e-300);
  EXPECT_EQ(named(tables, "layers").rows[0][6], "") << "no tau, no number";
}

TEST(Export, RunsOfDifferentSettingsShareOneTable) {
  const Table runs = named(tables_of(small_collection()), "runs");
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(runs.columns.begin(), runs.columns.end(), name) - runs.columns.begin());
  };
  ASSERT_LT(column("clip.kind"), runs.columns.size());
  EXPECT_EQ(runs.rows[0][column("optimizer.lr")], "0.1");
  EXPECT_EQ(runs.rows[1][column("optimizer.lr")], "");
  EXPECT_EQ(runs.rows[1][column("clip.kind")], "none");
  EXPECT_EQ(runs.rows[0][column("result.train_loss")], "0.1");
  EXPECT_EQ(runs.rows[0][column("result.steps_to_goal")], "");
}

TEST(Export, QuotesAsTheStandardSays) {
  const std::string text = csv_text({"t", {"a", "b"}, {{"1,5", "say \"x\""}, {"two\nlines", "plain"}}});
  EXPECT_EQ(text, "a,b\r\n\"1,5\",\"say \"\"x\"\"\"\r\n\"two\nlines\",plain\r\n");
}

}  // namespace
}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Directories as they are found: whole, running, torn, damaged, empty, nested too deep.
#include <gtest/gtest.h>

#include <cmath>

#include "lab/report_scratch.h"
#include "report/collect.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::report {
namespace {

using testing::finished_summary;
using testing::RunFolder;

std::string error_of(const std::vector<std::string>& directories) {
  try {
    (void)collect(directories);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ReportCollect, ReadsEveryFileOfARun) {
  const RunFolder folder;
  folder.write("a/seed-1/summary.json", finished_summary("a", 1, 0.5).dump());
  folder.write("a/seed-1/metrics.jsonl",
               "{\"step\":25,\"seconds\":0.5,\"loss\":2,\"lr\":0.1}\n"
               "{\"step\":50,\"seconds\":1,\"loss\":null,\"train_loss\":1.5}\n");
  folder.write(
      "a/seed-1/layers.jsonl",
      "{\"step\":50,\"layers\":[{\"name\":\"W\",\"sigma1\":3,\"tau\":null,\"steps\":50,\"steps_clipped\":5}]}\n");
  folder.write("a/seed-1/spectra.jsonl",
               "{\"step\":50,\"layers\":[{\"name\":\"W\",\"before\":[3,1],\"after\":[2,1]}]}\n");
  const Collection found = collect({folder.path()});
  ASSERT_EQ(found.runs.size(), 1u);
  const report::Run& run = found.runs[0];
  EXPECT_EQ(run.name, "a");
  EXPECT_EQ(run.settings.at("optimizer.lr"), "0.01");
  ASSERT_TRUE(find(run.metrics, "loss"));
  EXPECT_EQ(find(run.metrics, "loss")->value, std::vector<double>({2}));  // null is no number
  EXPECT_EQ(find(run.metrics, "train_loss")->step, std::vector<double>({50}));
  EXPECT_EQ(find(run.metrics, "seconds"), nullptr);
  ASSERT_TRUE(find(run.layers, "W"));
  EXPECT_TRUE(std::isnan(find(run.layers, "W")->tau[0]));
  EXPECT_EQ(find(run.layers, "W")->steps_clipped, 5);
  EXPECT_EQ(find(run.spectra, "W")->at(0).after, std::vector<double>({2, 1}));
  EXPECT_TRUE(found.warnings.empty());
}

TEST(ReportCollect, ATornLastLineIsIgnoredAndAWholeOneWithoutNewlineIsNot) {
  const RunFolder folder;
  folder.write("torn/summary.json", finished_summary("torn", 1, 0.5).dump());
  folder.write("torn/metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo");
  folder.write("whole/summary.json", finished_summary("whole", 1, 0.5).dump());
  folder.write("whole/metrics.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":3}");
  const Collection found = collect({folder.path()});
  EXPECT_EQ(find(found.runs[0].metrics, "loss")->value.size(), 1u);
  EXPECT_EQ(find(found.runs[1].metrics, "loss")->value.size(), 2u);
  EXPECT_TRUE(found.warnings.empty());
}

TEST(ReportCollect, DamagedLinesAreSkippedAndCounted) {
  const RunFolder folder;
  folder.write("summary.json", finished_summary("a", 1, 0.5).dump());
  folder.write(
      "metrics.jsonl",
      std::string("{\"step\":1,\"loss\":2}\n\0\0\0\n[1,2]\n\n{\"step\":2,\"loss\":NaN}\n{\"step\":3,\"loss\":4}\n",
                  74));
  const Collection found = collect({folder.path()});
  EXPECT_EQ(find(found.runs[0].metrics, "loss")->step, std::vector<double>({1, 3}));
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_NE(found.warnings[0].find("metrics.jsonl: 3 damaged lines were skipped"), std::string::npos)
      << found.warnings[0];
}

// Right JSON of the wrong shape must not stop the report either.
TEST(ReportCollect, SurvivesValuesOfOtherKinds) {
  const RunFolder folder;
  folder.write("summary.json", R"({"status":7,"task":null,"seed":"x","results":[],"settings":{"a":1,"b":null}})");
  folder.write("metrics.jsonl", "{\"step\":\"one\",\"loss\":2}\n{\"step\":2,\"loss\":\"high\"}\n{}\n");
  folder.write("layers.jsonl", "{\"step\":1,\"layers\":{}}\n{\"step\":1,\"layers\":[1,{\"name\":3}]}\n");
  folder.write("spectra.jsonl", "{\"step\":1,\"layers\":[{\"name\":\"W\",\"before\":7}]}\n");
  const Collection found = collect({folder.path()});
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].settings.at("a"), "1");
  EXPECT_TRUE(found.runs[0].metrics.empty() && found.runs[0].layers.empty() && found.runs[0].spectra.empty());
}

TEST(ReportCollect, LooksFourLevelsDeep) {
  const RunFolder folder;
  folder.write("1/2/3/4/summary.json", finished_summary("found", 1, 0.5).dump());
  folder.write("1/2/3/x/5/summary.json", finished_summary("too deep", 1, 0.5).dump());
  const Collection found = collect({folder.path()});
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].name, "found");
}

TEST(ReportCollect, ADirectoryWithoutRunsIsNamed) {
  const RunFolder folder;
  folder.write("good/summary.json", finished_summary("a", 1, 0.5).dump());
  folder.write("empty/readme.txt", "");
  folder.write("broken/summary.json", "{\"status\":");
  EXPECT_NE(error_of({folder.path("good"), folder.path("empty")}).find("no run or sweep in " + folder.path("empty")),
            std::string::npos);
  EXPECT_NE(error_of({folder.path("absent")}).find(folder.path("absent") + " is not a directory"), std::string::npos);
  EXPECT_NE(error_of({folder.path("broken")}).find("summary.json is damaged"), std::string::npos);
  EXPECT_NE(error_of({}).find("no directory given"), std::string::npos);
  EXPECT_EQ(error_of({folder.path("good")}), "");
}

TEST(ReportCollect, ADamagedSummaryAmongGoodOnesIsAWarning) {
  const RunFolder folder;
  folder.write("a/summary.json", finished_summary("a", 1, 0.5).dump());
  folder.write("b/summary.json", "{\"status\":");
  const Collection found = collect({folder.path()});
  EXPECT_EQ(found.runs.size(), 1u);
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_NE(found.warnings[0].find("b/summary.json is damaged"), std::string::npos);
}

TEST(ReportCollect, TheSameDirectoryTwiceIsOneRun) {
  const RunFolder folder;
  folder.write("a/summary.json", finished_summary("a", 1, 0.5).dump());
  EXPECT_EQ(collect({folder.path(), folder.path("a"), folder.path("a/../a")}).runs.size(), 1u);
}

TEST(ReportCollect, SummariesAloneAreEnoughForATable) {
  const RunFolder folder;
  folder.write("summary.json", finished_summary("a", 1, 0.5).dump());
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  EXPECT_TRUE(collect({folder.path()}, {.series = false}).runs[0].metrics.empty());
}

constexpr const char* kSweepSummary =
    R"({"kind":"sweep","name":"s","search":"random","trials":3,"metric":"train_loss",
        "space":[{"key":"optimizer.lr","scale":"log"},{"key":"q","scale":"linear"}]})";

TEST(ReportCollect, ASweepIsItsTrialsAndItsBestRunsOnly) {
  const RunFolder folder;
  folder.write("s/summary.json", kSweepSummary);
  folder.write("s/trials.jsonl",
               "{\"trial\":1,\"values\":{\"optimizer.lr\":0.1,\"q\":0.5},\"status\":\"finished\",\"value\":3}\n"
               "{\"trial\":2,\"values\":{\"optimizer.lr\":0.2,\"q\":0.5},\"status\":\"diverged\",\"value\":null}\n"
               "{\"trial\":1,\"values\":{\"optimizer.lr\":0.1,\"q\":0.5},\"status\":\"finished\",\"value\":2}\n"
               "{\"trial\":3,\"val");
  Json trial = finished_summary("t", 1, 0.5);
  folder.write("s/trials/0001/summary.json", trial.dump());
  trial["results"]["baseline_loss"] = 1.25;
  folder.write("s/trials/0002/summary.json", trial.dump());
  folder.write("s/best/seed-1/summary.json", finished_summary("t", 1, 0.5).dump());
  const Collection found = collect({folder.path()});
  ASSERT_EQ(found.sweeps.size(), 1u);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].name, "s (best)");
  const Sweep& sweep = found.sweeps[0];
  ASSERT_EQ(sweep.trials.size(), 2u);
  EXPECT_EQ(sweep.trials[0].value, 2);  // the later line
  EXPECT_TRUE(std::isnan(sweep.trials[1].value));
  EXPECT_EQ(sweep.baseline, 1.25);
  EXPECT_TRUE(sweep.space[0].log);
  EXPECT_FALSE(sweep.space[1].log);
}

TEST(ReportCollect, ASweepThatStillRunsNeedsNoSummary) {
  const RunFolder folder;
  folder.write("running/trials.jsonl",
               "{\"trial\":1,\"values\":{\"lr\":0.001,\"q\":0.5},\"status\":\"finished\",\"value\":3}\n"
               "{\"trial\":2,\"values\":{\"lr\":0.1,\"q\":0.9},\"status\":\"finished\",\"value\":4}\n");
  const Sweep sweep = collect({folder.path("running")}).sweeps.at(0);
  EXPECT_EQ(sweep.name, "running");
  ASSERT_EQ(sweep.space.size(), 2u);
  EXPECT_TRUE(sweep.space[0].log);
  EXPECT_FALSE(sweep.space[1].log);
}

}  // namespace
}  // namespace spectralclip::lab::report

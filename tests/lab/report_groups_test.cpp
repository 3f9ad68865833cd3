// SPDX-License-Identifier: Apache-2.0
// What counts as the same configuration, its numbers, and the table for the terminal.
#include <gtest/gtest.h>

#include <cmath>

#include "lab/report_scratch.h"
#include "report/groups.h"
#include "report/terminal_table.h"

namespace spectralclip::lab::report {
namespace {

using testing::diverged_run;
using testing::finished_run;

std::vector<const Group*> pointers(const std::vector<Group>& groups) { return groups_of(groups, "mlp-heavy-tail"); }

TEST(ReportGroups, SeedsOfOneNameAreOneGroup) {
  std::vector<report::Run> runs = {finished_run("a", 1, 1), finished_run("b", 1, 9), finished_run("a", 2, 3)};
  runs[2].settings["record.log_every"] = "1";  // does not change what is computed
  runs[2].settings["seed"] = "2";
  const std::vector<Group> groups = make_groups(runs);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].label, "a");
  EXPECT_EQ(groups[0].main.count, 2);
  EXPECT_DOUBLE_EQ(groups[0].main.mean, 2);
  EXPECT_DOUBLE_EQ(groups[0].main.deviation, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(groups[0].validation.mean, 4);
  EXPECT_EQ(groups[1].style, 1u);
}

// By what differs, where that tells them apart; the best is drawn first in every figure.
TEST(ReportGroups, AreNamedByMethodAndStyledByRank) {
  std::vector<report::Run> runs = {finished_run("long-preset-name-norm", 1, 3),
                                   finished_run("long-preset-name-spectral", 1, 1),
                                   finished_run("long-preset-name-adam", 1, 2)};
  runs[0].settings["clip.kind"] = "global_norm";
  runs[1].settings["clip.threshold"] = "ema";
  runs[2].settings["optimizer.kind"] = "adam";
  runs[2].settings["clip.kind"] = "none";
  const std::vector<Group> groups = make_groups(runs);
  EXPECT_EQ(groups[0].label, "SGDM, norm");
  EXPECT_EQ(groups[1].label, "SGDM, spectral EMA");
  EXPECT_EQ(groups[2].label, "Adam, no clipping");
  EXPECT_EQ(groups[0].style, 2u);
  EXPECT_EQ(groups[1].style, 0u);
  EXPECT_EQ(groups[2].style, 1u);
  EXPECT_EQ(make_groups({runs[0]})[0].label, "long-preset-name-norm") << "alone it keeps its name";
}

// Averaging two learning rates because both runs carry the same name would be a lie.
TEST(ReportGroups, OneNameWithOtherSettingsIsAnotherGroup) {
  std::vector<report::Run> runs = {finished_run("a", 1, 1), finished_run("a", 1, 3)};
  runs[1].settings["optimizer.lr"] = "0.1";
  const std::vector<Group> groups = make_groups(runs);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].label, "a [optimizer.lr=0.01]");
  EXPECT_EQ(groups[1].label, "a [optimizer.lr=0.1]");
}

TEST(ReportGroups, DivergedAndUnfinishedRunsCountNowhere) {
  std::vector<report::Run> runs = {finished_run("a", 1, 1), diverged_run("a", 2), finished_run("a", 3, 100)};
  runs[2].status = "stopped";
  const Group group = make_groups(runs).at(0);
  EXPECT_EQ(group.main.count, 1);
  EXPECT_EQ(group.main.mean, 1);
  EXPECT_EQ(group.diverged, 1);
  EXPECT_EQ(group.unfinished, 1);
}

TEST(ReportGroups, TheBestHasNoDivergedSeedIfThereIsSuchAGroup) {
  const std::vector<report::Run> runs = {finished_run("lucky", 1, 0.1), diverged_run("lucky", 2),
                                         finished_run("safe", 1, 0.2)};
  const std::vector<Group> groups = make_groups(runs);
  EXPECT_EQ(best_of(pointers(groups))->label, "safe");
  EXPECT_EQ(ranked(pointers(groups))[0]->label, "lucky");
  const std::vector<report::Run> only_lucky = {runs[0], runs[1]};
  const std::vector<Group> lucky = make_groups(only_lucky);
  EXPECT_EQ(best_of(pointers(lucky))->label, "lucky");
}

TEST(ReportGroups, LargerIsBetterWhereTheRunSaysSo) {
  std::vector<report::Run> runs = {finished_run("low", 1, 0.25), finished_run("high", 1, 0.5)};
  for (report::Run& run : runs) run.metric_infos.push_back({"train_loss", {"score", "%", true}});
  const std::vector<Group> groups = make_groups(runs);
  EXPECT_EQ(best_of(pointers(groups))->label, "high");
  EXPECT_EQ(ranked(pointers(groups)).front()->label, "high");
}

TEST(ReportGroups, EqualNumbersHaveNoSpread) {
  const std::vector<double> same = {0.012, 0.012, 0.012};
  EXPECT_EQ(statistic(same).deviation, 0);
  EXPECT_EQ(statistic(std::vector<double>{kNothing}).count, 0);
  EXPECT_EQ(spread({}), "–");
  EXPECT_EQ(spread(statistic(std::vector<double>{0.5})), "0.5");
}

TEST(ReportTable, IsAlignedSortedAndMarked) {
  const std::vector<report::Run> runs = {finished_run("slow", 1, 0.5), finished_run("quick-ä", 1, 0.125),
                                         finished_run("quick-ä", 2, 0.375), diverged_run("lost", 1)};
  const std::string expected =
      "mlp-heavy-tail\n"
      "  name      train_loss    val_loss  seeds  diverged  s/run\n"
      "* quick-ä  0.25 ± 0.18  0.5 ± 0.35      2         0      2\n"
      "  slow             0.5           1      1         0      2\n"
      "  lost               –           –      1         1      2\n";
  EXPECT_EQ(terminal_table(runs), expected);
}

TEST(ReportTable, ColoursOnlyWhenAsked) {
  const std::vector<report::Run> runs = {finished_run("a", 1, 1), finished_run("b", 1, 2)};
  EXPECT_EQ(terminal_table(runs).find('\x1b'), std::string::npos);
  EXPECT_NE(terminal_table(runs, {.colour = true}).find("\x1b[1;32m* a"), std::string::npos);
}

TEST(ReportTable, ANameCannotControlTheTerminal) {
  const std::string table =
      terminal_table({finished_run("a\x1b[2Jb\nc\xc2\x9b"
                                   "d",
                                   1, 1)});
  EXPECT_NE(table.find("a?[2Jb?c?d"), std::string::npos) << table;
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
}

TEST(ReportTable, UnfinishedRunsHaveAColumnAndNoRunsNoTable) {
  report::Run running = finished_run("a", 1, 1);
  running.status = "running";
  EXPECT_NE(terminal_table({running}).find("unfinished"), std::string::npos);
  EXPECT_EQ(terminal_table({}), "");
}

}  // namespace
}  // namespace spectralclip::lab::report

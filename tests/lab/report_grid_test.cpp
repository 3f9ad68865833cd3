// SPDX-License-Identifier: Apache-2.0
// Grids, their borders, and who wins where.
#include <gtest/gtest.h>

#include <cmath>

#include "lab/report_scratch.h"
#include "report/grid.h"
#include "report/sweep_text.h"

namespace spectralclip::lab::report {
namespace {

using testing::small_grid;
using testing::trial_at;

TEST(ReportGrid, TrialsFindTheirCells) {
  Sweep sweep = small_grid("g", {1, 2, 3, kNothing});
  std::swap(sweep.trials[0], sweep.trials[3]);
  sweep.trials[1].values[0].second *= 1 + 1e-13;  // the same value after another way through text
  const Grid grid = grid_of(sweep).value();
  EXPECT_EQ(grid.x.values.size(), 2u);
  EXPECT_EQ(std::vector<double>(grid.value.begin(), grid.value.begin() + 3), std::vector<double>({1, 2, 3}));
  EXPECT_EQ(grid.state[3], CellState::lost);
}

TEST(ReportGrid, ACellThatWasNotRunIsMissing) {
  const Grid grid = grid_of(small_grid("g", {1, 2, 3})).value();
  EXPECT_EQ(grid.state[3], CellState::missing);
  EXPECT_DOUBLE_EQ(share_below(grid, 2.5), 2.0 / 3);
}

TEST(ReportGrid, FurtherParametersAreProjectedOnTheirBest) {
  Sweep sweep = small_grid("g", {1, 2, 3, 4});
  sweep.space.push_back({"z", false});
  sweep.trials.push_back(trial_at(9, 1, 1, 0.5));
  sweep.trials.push_back(trial_at(10, 1, 1, kNothing));
  const Grid grid = grid_of(sweep).value();
  EXPECT_TRUE(grid.projected);
  EXPECT_EQ(grid.value[0], 0.5);
  EXPECT_EQ(grid.state[0], CellState::finished);
}

TEST(ReportGrid, OtherSearchesAndLinesHaveNone) {
  Sweep sweep = small_grid("g", {1, 2, 3, 4});
  sweep.search = "random";
  EXPECT_FALSE(grid_of(sweep));
  sweep.search = "grid";
  sweep.space.pop_back();
  EXPECT_FALSE(grid_of(sweep));
}

TEST(ReportGrid, BordersLieHalfWayInTheScaleOfTheAxis) {
  EXPECT_EQ(cell_borders({"x", false, {1, 2, 4}}), std::vector<double>({0.5, 1.5, 3, 5}));
  const std::vector<double> borders = cell_borders({"x", true, {1, 100}});
  ASSERT_EQ(borders.size(), 3u);
  EXPECT_NEAR(borders[0], 0.1, 1e-12);
  EXPECT_NEAR(borders[1], 10, 1e-12);
  EXPECT_NEAR(borders[2], 1000, 1e-9);
}

TEST(ReportGrid, TheGapIsPositiveWhereTheSecondIsBetter) {
  const Grid first = grid_of(small_grid("norm", {10, 1, kNothing, kNothing})).value();
  const Grid second = grid_of(small_grid("spectral", {1, 10, 5, kNothing})).value();
  const GridGap gap = compare(first, second);
  EXPECT_DOUBLE_EQ(gap.gap[0], 1);
  EXPECT_DOUBLE_EQ(gap.gap[1], -1);
  EXPECT_TRUE(std::isnan(gap.gap[2]));  // no ratio, but a winner
  EXPECT_EQ(gap.better, std::vector<int>({2, 1, 2, 0}));
  EXPECT_EQ(gap.first, 1);
  EXPECT_EQ(gap.second, 2);
  EXPECT_EQ(gap.both_lost, 1);
  EXPECT_EQ(gap.compared, 4);
}

TEST(ReportGrid, ADifferenceWithinNoiseIsNoVictory) {
  const Grid first = grid_of(small_grid("norm", {1, 1, 1, 0})).value();
  const Grid second = grid_of(small_grid("spectral", {1.01, 0.99, 1.05, 0})).value();
  const GridGap gap = compare(first, second);
  EXPECT_EQ(gap.better, std::vector<int>({0, 0, 1, 0}));
  EXPECT_EQ(gap.equal, 3);
  EXPECT_EQ(gap.second, 0);
}

TEST(ReportGrid, ThresholdIsTheBaselineOrTheCommonMedian) {
  Sweep a = small_grid("a", {1, 2, 3, 4});
  const Sweep b = small_grid("b", {5, 6, 7, kNothing});
  const Grid grid_a = grid_of(a).value(), grid_b = grid_of(b).value();
  EXPECT_EQ(common_threshold({&a, &b}, {&grid_a, &grid_b}).value, 4);
  EXPECT_EQ(share_below(grid_b, 6.5), 0.5);
  a.baseline = 2.5;
  EXPECT_EQ(common_threshold({&a, &b}, {&grid_a, &grid_b}).value, 2.5);
  EXPECT_TRUE(common_threshold({&a, &b}, {&grid_a, &grid_b}).is_baseline);
}

TEST(ReportGrid, ColoursAreCommonAndNotSpentOnWhatLearnedNothing) {
  const Grid a = grid_of(small_grid("a", {1, 2, 3, 4000})).value(),
             b = grid_of(small_grid("b", {0.5, 6, 7, 8})).value();
  const ColourRange all = common_colours({&a, &b}, {4, false});
  EXPECT_EQ(all.low, 0.5);
  EXPECT_EQ(all.high, 4000);
  EXPECT_FALSE(all.is_cut);
  const ColourRange cut = common_colours({&a, &b}, {4, true});
  EXPECT_EQ(cut.high, 4);
  EXPECT_TRUE(cut.is_cut);
  EXPECT_FALSE(common_colours({&a}, {0.1, true}).is_cut);  // nothing below it: there is no rest
}

TEST(ReportGrid, SweepsAreDescribed) {
  EXPECT_EQ(describe(small_grid("g", {4, 2, 3, kNothing})),
            "4 trials, 1 of them diverged or failed; smallest train_loss 2, trial 1 at x = 10, y = 1.");
  EXPECT_EQ(describe(small_grid("g", {kNothing})),
            "1 of 4 trials so far, 1 of them diverged or failed; none gave a value.");
}

}  // namespace
}  // namespace spectralclip::lab::report

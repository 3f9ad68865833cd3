// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "spectralclip/error.h"
#include "sweep/space.h"

namespace spectralclip::lab {
namespace {

const Axis kLr = {"optimizer.lr", 1e-4, 1e-1, Scale::log, 4};
const Axis kQuantile = {"clip.quantile", 0.5, 0.99, Scale::linear, 3};

std::string refusal(const SearchSpace& space) {
  try {
    validate(space);
    (void)grid_size(space);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SearchSpace, UnitAndValueAreInverses) {
  for (const Axis& axis : {kLr, kQuantile}) {
    EXPECT_EQ(value_at(axis, 0.0), axis.low);
    EXPECT_EQ(value_at(axis, 1.0), axis.high);
    EXPECT_EQ(value_at(axis, 1.5), axis.high);
    EXPECT_EQ(unit_of(axis, axis.low / 2), 0.0);
    for (int i = 0; i <= 100; ++i) {
      const double unit = i / 100.0;
      const double value = value_at(axis, unit);
      EXPECT_GE(value, axis.low);
      EXPECT_LE(value, axis.high);
      EXPECT_NEAR(unit_of(axis, value), unit, 1e-14);
    }
  }
  EXPECT_NEAR(value_at(kLr, 1.0 / 3.0), 1e-3, 1e-17);
  EXPECT_NEAR(value_at(kQuantile, 0.5), 0.745, 1e-15);
}

TEST(SearchSpace, GridCoversAllPointsOnce) {
  const SearchSpace space = {kLr, kQuantile};
  ASSERT_EQ(grid_size(space), 12);
  std::set<Point> points;
  std::set<double> rates;
  for (std::int64_t i = 0; i < 12; ++i) {
    points.insert(grid_point(space, i));
    rates.insert(grid_point(space, i)[0]);
  }
  EXPECT_EQ(points.size(), 12U);
  EXPECT_EQ(rates.size(), 4U);
  EXPECT_EQ(grid_point(space, 0), (Point{1e-4, 0.5}));
  EXPECT_EQ(grid_point(space, 2), (Point{1e-4, 0.99}));  // the last axis runs fastest
  EXPECT_EQ(grid_point(space, 11), (Point{1e-1, 0.99}));
  EXPECT_THROW((void)grid_point(space, 12), InvalidArgument);
  EXPECT_THROW((void)grid_point(space, -1), InvalidArgument);
}

TEST(SearchSpace, RefusesNonsenseByName) {
  EXPECT_NE(refusal({}).find("empty"), std::string::npos);
  EXPECT_NE(refusal({{"lr", 0.0, 1.0, Scale::log, 3}}).find("log scale needs a positive"), std::string::npos);
  EXPECT_NE(refusal({{"lr", 2.0, 1.0, Scale::linear, 3}}).find("low = 2, high = 1"), std::string::npos);
  EXPECT_NE(refusal({{"lr", 0.0, INFINITY, Scale::linear, 3}}).find("finite"), std::string::npos);
  EXPECT_NE(refusal({{"lr", NAN, 1.0, Scale::linear, 3}}).find("finite"), std::string::npos);
  EXPECT_NE(refusal({kLr, kLr}).find("twice"), std::string::npos);
  EXPECT_NE(refusal({{"lr", 0.0, 1.0, Scale::linear, 1}}).find("points = 1; a grid needs at least 2"),
            std::string::npos);
  EXPECT_NE(refusal({{"a", 0, 1, Scale::linear, 1001}, {"b", 0, 1, Scale::linear, 1001}}).find("more than"),
            std::string::npos);
}

}  // namespace
}  // namespace spectralclip::lab

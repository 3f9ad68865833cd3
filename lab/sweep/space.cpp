// SPDX-License-Identifier: Apache-2.0
#include "sweep/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

constexpr std::int64_t kMaxGrid = 1'000'000;  // a year of trials of 30 s each

void validate(const Axis& axis) {
  if (axis.key.empty()) throw InvalidArgument("search space: an axis without a key");
  if (!std::isfinite(axis.low) || !std::isfinite(axis.high) || axis.low >= axis.high) {
    throw InvalidArgument(fmt::format("search space: {} has low = {}, high = {}; both must be finite, low below high",
                                      axis.key, axis.low, axis.high));
  }
  if (axis.scale == Scale::log && axis.low <= 0.0) {
    throw InvalidArgument(
        fmt::format("search space: {} has low = {}; a log scale needs a positive one", axis.key, axis.low));
  }
  if (axis.points < 0 || axis.points > kMaxGrid) {
    throw InvalidArgument(
        fmt::format("search space: {} has points = {}; allowed: 0 to {}", axis.key, axis.points, kMaxGrid));
  }
}

}  // namespace

void validate(const SearchSpace& space) {
  if (space.empty()) throw InvalidArgument("search space: empty; give at least one [space.\"key\"]");
  std::set<std::string> keys;
  for (const Axis& axis : space) {
    validate(axis);
    if (!keys.insert(axis.key).second) throw InvalidArgument("search space: " + axis.key + " is there twice");
  }
}

double value_at(const Axis& axis, double unit) {
  if (unit <= 0.0) return axis.low;
  if (unit >= 1.0) return axis.high;
  const double value = axis.scale == Scale::log ? axis.low * std::pow(axis.high / axis.low, unit)
                                                : axis.low + unit * (axis.high - axis.low);
  return std::clamp(value, axis.low, axis.high);
}

double unit_of(const Axis& axis, double value) {
  const double inside = std::clamp(value, axis.low, axis.high);
  const double unit = axis.scale == Scale::log ? std::log(inside / axis.low) / std::log(axis.high / axis.low)
                                               : (inside - axis.low) / (axis.high - axis.low);
  return std::clamp(unit, 0.0, 1.0);
}

Point values_at(const SearchSpace& space, const Point& units) {
  Point values(space.size());
  for (std::size_t i = 0; i < space.size(); ++i) values[i] = value_at(space[i], units.at(i));
  return values;
}

Point units_of(const SearchSpace& space, const Point& values) {
  Point units(space.size());
  for (std::size_t i = 0; i < space.size(); ++i) units[i] = unit_of(space[i], values.at(i));
  return units;
}

std::int64_t grid_size(const SearchSpace& space) {
  std::int64_t size = 1;
  for (const Axis& axis : space) {
    if (axis.points < 2) {
      throw InvalidArgument(
          fmt::format("search space: {} has points = {}; a grid needs at least 2", axis.key, axis.points));
    }
    if (axis.points > kMaxGrid / size)
      throw InvalidArgument(fmt::format("search space: a grid of more than {} points", kMaxGrid));
    size *= axis.points;
  }
  return size;
}

Point grid_point(const SearchSpace& space, std::int64_t index) {
  const std::int64_t size = grid_size(space);
  if (index < 0 || index >= size) throw InvalidArgument(fmt::format("grid point {} of {}: there is none", index, size));
  Point values(space.size());
  for (std::size_t i = space.size(); i-- > 0;) {
    const Axis& axis = space[i];
    const std::int64_t step = index % axis.points;
    values[i] = value_at(axis, static_cast<double>(step) / static_cast<double>(axis.points - 1));
    index /= axis.points;
  }
  return values;
}

}  // namespace spectralclip::lab

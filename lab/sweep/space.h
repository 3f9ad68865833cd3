// SPDX-License-Identifier: Apache-2.0
// What a sweep searches: a box with one axis per key. Searchers work in the unit cube; here are the maps between the
// two and the points of a grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spectralclip::lab {

enum class Scale { log, linear };

struct Axis {
  std::string key;  // of the configuration, e.g. "optimizer.lr"
  double low = 0.0;
  double high = 1.0;
  Scale scale = Scale::linear;
  std::int64_t points = 0;  // grid only
};

using SearchSpace = std::vector<Axis>;
using Point = std::vector<double>;  // one number per axis, in the order of the space

// Throws InvalidArgument naming the key, the value and what is allowed.
void validate(const SearchSpace& space);

// unit in [0, 1] -> [low, high] and back; 0 and 1 give low and high exactly, whatever is outside is clamped.
[[nodiscard]] double value_at(const Axis& axis, double unit);
[[nodiscard]] double unit_of(const Axis& axis, double value);
[[nodiscard]] Point values_at(const SearchSpace& space, const Point& units);
[[nodiscard]] Point units_of(const SearchSpace& space, const Point& values);

// Product of the points; throws when an axis has fewer than 2 or the grid more than a million.
[[nodiscard]] std::int64_t grid_size(const SearchSpace& space);
// index in [0, grid_size): the last axis runs fastest, both ends of every axis are among its points.
[[nodiscard]] Point grid_point(const SearchSpace& space, std::int64_t index);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// A grid search as a matrix over its first two parameters, and two such matrices compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace spectralclip::lab::report {

struct GridAxis {
  std::string key;
  bool log = false;
  std::vector<double> values;  // ascending
};

enum class CellState { missing, finished, lost };  // lost: diverged or failed

// Row-major, one row per value of y. With more than two parameters a cell has the best over the others.
struct Grid {
  GridAxis x, y;
  std::vector<double> value;     // y.size * x.size, NaN unless finished
  std::vector<CellState> state;  // likewise
  bool projected = false;        // there are further parameters

  [[nodiscard]] std::size_t columns() const { return x.values.size(); }
  [[nodiscard]] std::size_t rows() const { return y.values.size(); }
};

// Nothing unless it is a grid search of at least two parameters, each with two values or more.
[[nodiscard]] std::optional<Grid> grid_of(const Sweep& sweep);

// n values -> n + 1 borders half-way between them, in the logarithm when the axis is.
[[nodiscard]] std::vector<double> cell_borders(const GridAxis& axis);

// Share of the cells with a value below the threshold; a lost cell is not below anything, a missing one does not count.
[[nodiscard]] double share_below(const Grid& grid, double threshold);

// The loss of predicting the mean when the sweeps give one; else the median of all finished cells.
struct Threshold {
  double value = kNothing;
  bool is_baseline = false;
};
[[nodiscard]] Threshold common_threshold(const std::vector<const Sweep*>& sweeps,
                                         const std::vector<const Grid*>& grids);

// Values that the first and the last colour stand for, one scale for all grids of a metric. What is above twice the
// loss of predicting the mean has learned nothing, however bad it is: it must not take the colours from the rest.
struct ColourRange {
  double low = kNothing, high = kNothing;
  bool is_cut = false;  // some value lies above `high`
};
[[nodiscard]] ColourRange common_colours(const std::vector<const Grid*>& grids, const Threshold& threshold);

// |log10(first / second)| up to which two cells are equal, about 2 %: seeds differ by more.
inline constexpr double kTie = 0.01;

// log10(first / second) where both finished: positive where the second is better. A cell that only one of them
// trained counts for that one and has no number.
struct GridGap {
  std::vector<double> gap;
  std::vector<int> better;  // 1 or 2; 0: equal, both lost, or missing
  std::int64_t first = 0, second = 0, equal = 0, both_lost = 0, compared = 0;
};
[[nodiscard]] GridGap compare(const Grid& first, const Grid& second);

}  // namespace spectralclip::lab::report

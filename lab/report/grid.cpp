// SPDX-License-Identifier: Apache-2.0
#include "report/grid.h"

#include <algorithm>
#include <cmath>

namespace spectralclip::lab::report {
namespace {

// Values that differ by rounding alone are one: both came through decimal text.
bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

GridAxis axis_of(const Sweep& sweep, const SearchAxis& search) {
  GridAxis axis{search.key, search.log, {}};
  for (const Trial& trial : sweep.trials)
    if (const double* value = find(trial.values, search.key)) axis.values.push_back(*value);
  std::sort(axis.values.begin(), axis.values.end());
  axis.values.erase(std::unique(axis.values.begin(), axis.values.end(), same), axis.values.end());
  axis.log = axis.log && !axis.values.empty() && axis.values.front() > 0;
  return axis;
}

std::optional<std::size_t> place_of(const GridAxis& axis, const Trial& trial) {
  const double* value = find(trial.values, axis.key);
  if (!value) return std::nullopt;
  const auto found =
      std::find_if(axis.values.begin(), axis.values.end(), [&](double one) { return same(one, *value); });
  if (found == axis.values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - axis.values.begin());
}

void take_trial(Grid& grid, const Trial& trial) {
  const auto column = place_of(grid.x, trial), row = place_of(grid.y, trial);
  if (!column || !row) return;
  const std::size_t cell = *row * grid.columns() + *column;
  if (std::isfinite(trial.value)) {
    const bool first = grid.state[cell] != CellState::finished;
    grid.value[cell] = first ? trial.value : std::min(grid.value[cell], trial.value);
    grid.state[cell] = CellState::finished;
  } else if (grid.state[cell] == CellState::missing) {
    grid.state[cell] = CellState::lost;
  }
}

double median(std::vector<double> values) {
  if (values.empty()) return kNothing;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::optional<Grid> grid_of(const Sweep& sweep) {
  if (sweep.search != "grid" || sweep.space.size() < 2) return std::nullopt;
  Grid grid;
  grid.x = axis_of(sweep, sweep.space[0]);
  grid.y = axis_of(sweep, sweep.space[1]);
  grid.projected = sweep.space.size() > 2;
  if (grid.columns() < 2 || grid.rows() < 2) return std::nullopt;
  grid.value.assign(grid.columns() * grid.rows(), kNothing);
  grid.state.assign(grid.columns() * grid.rows(), CellState::missing);
  for (const Trial& trial : sweep.trials) take_trial(grid, trial);
  return grid;
}

std::vector<double> cell_borders(const GridAxis& axis) {
  std::vector<double> at;
  for (const double value : axis.values) at.push_back(axis.log ? std::log(value) : value);
  const std::size_t n = at.size();
  std::vector<double> borders;
  borders.push_back(n < 2 ? at[0] - 0.5 : 1.5 * at[0] - 0.5 * at[1]);
  for (std::size_t i = 1; i < n; ++i) borders.push_back(0.5 * (at[i - 1] + at[i]));
  borders.push_back(n < 2 ? at[0] + 0.5 : 1.5 * at[n - 1] - 0.5 * at[n - 2]);
  if (axis.log)
    for (double& border : borders) border = std::exp(border);
  return borders;
}

double share_below(const Grid& grid, double threshold) {
  std::size_t below = 0, all = 0;
  for (std::size_t cell = 0; cell < grid.value.size(); ++cell) {
    all += grid.state[cell] != CellState::missing;
    below += grid.value[cell] < threshold;
  }
  return all == 0 ? kNothing : static_cast<double>(below) / static_cast<double>(all);
}

Threshold common_threshold(const std::vector<const Sweep*>& sweeps, const std::vector<const Grid*>& grids) {
  for (const Sweep* sweep : sweeps)
    if (std::isfinite(sweep->baseline)) return {sweep->baseline, true};
  std::vector<double> values;
  for (const Grid* grid : grids)
    for (const double value : grid->value)
      if (std::isfinite(value)) values.push_back(value);
  return {median(std::move(values)), false};
}

ColourRange common_colours(const std::vector<const Grid*>& grids, const Threshold& threshold) {
  ColourRange range;
  for (const Grid* grid : grids)
    for (const double value : grid->value) {
      if (!(value > 0) || !std::isfinite(value)) continue;
      range.low = std::fmin(range.low, value);
      range.high = std::fmax(range.high, value);
    }
  const double most = threshold.value;  // beyond it nothing was learnt: no colours are spent there
  range.is_cut = threshold.is_baseline && range.high > most && range.low < most;
  if (range.is_cut) range.high = most;
  return range;
}

GridGap compare(const Grid& first, const Grid& second) {
  GridGap result;
  for (std::size_t cell = 0; cell < first.value.size(); ++cell) {
    const bool missing = first.state[cell] == CellState::missing || second.state[cell] == CellState::missing;
    const double a = first.value[cell], b = second.value[cell];
    const bool has_a = std::isfinite(a), has_b = std::isfinite(b);
    int better = 0;
    if (!missing && has_a != has_b) better = has_a ? 1 : 2;
    const bool tied = a == b || (a > 0 && b > 0 && std::abs(std::log10(a / b)) <= kTie);
    if (!missing && has_a && has_b && !tied) better = a < b ? 1 : 2;
    result.gap.push_back(!missing && a > 0 && b > 0 ? std::log10(a / b) : kNothing);
    result.better.push_back(better);
    result.first += better == 1;
    result.second += better == 2;
    result.equal += !missing && has_a && has_b && tied;
    result.both_lost += !missing && !has_a && !has_b;
    result.compared += !missing;
  }
  return result;
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Heat maps of grid searches, and where one of two grids is better.
#include <fmt/core.h>

#include <cmath>

#include "report/figures.h"
#include "report/grid.h"
#include "report/model_parts.h"
#include "report/sweep_text.h"

namespace spectralclip::lab::report {
namespace {

constexpr std::size_t kMostGaps = 6;  // three grids have three pairs, four have six

struct NamedGrid {
  const Sweep* sweep;
  Grid grid;
};

std::vector<NamedGrid> grids_of(const std::vector<Sweep>& sweeps) {
  std::vector<NamedGrid> grids;
  for (const Sweep& sweep : sweeps)
    if (auto grid = grid_of(sweep)) grids.push_back({&sweep, std::move(*grid)});
  return grids;
}

// The grids of the same metric, itself included: what thresholds and colours are common to.
struct Peers {
  std::vector<const Sweep*> sweeps;
  std::vector<const Grid*> grids;
};

Peers peers_of(const NamedGrid& one, const std::vector<NamedGrid>& all) {
  Peers peers;
  for (const NamedGrid& other : all) {
    if (other.sweep->metric != one.sweep->metric) continue;
    peers.sweeps.push_back(other.sweep);
    peers.grids.push_back(&other.grid);
  }
  return peers;
}

Json axis_json(const GridAxis& axis) {
  Json json = make_axis(axis.key, axis.log);
  json["values"] = numbers(axis.values);
  json["borders"] = numbers(cell_borders(axis));
  return json;
}

// The places of the first; both names when they differ (clip.max_norm and clip.tau).
Json shared_axis_json(const GridAxis& first, const GridAxis& second) {
  Json json = axis_json(first);
  if (first.key != second.key) json["title"] = first.key + " | " + second.key;
  return json;
}

// rows x columns, as lists of lists.
template <class Cell>
Json matrix_json(const Grid& grid, Cell cell) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    Json line = Json::array();
    for (std::size_t column = 0; column < grid.columns(); ++column) line.push_back(cell(row * grid.columns() + column));
    rows.push_back(std::move(line));
  }
  return rows;
}

const char* name_of(CellState state) {
  if (state == CellState::finished) return "finished";
  return state == CellState::lost ? "lost" : "missing";
}

std::string percent(std::int64_t part, std::int64_t all) {
  return fmt::format("{} of {} cells ({:.0f} %)", part, all,
                     100.0 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, all)));
}

std::string threshold_text(const Threshold& threshold, const std::string& metric) {
  return threshold.is_baseline ? fmt::format("the loss of predicting the mean, {:.4g}", threshold.value)
                               : fmt::format("the median {} of the grids, {:.4g}", metric, threshold.value);
}

// The median of one grid alone would always say one half.
std::string trained_text(const NamedGrid& one, const Threshold& threshold, bool alone) {
  if (!std::isfinite(threshold.value) || (alone && !threshold.is_baseline)) return "";
  return fmt::format(" {:.0f} % of the grid trained below {}.", 100 * share_below(one.grid, threshold.value),
                     threshold_text(threshold, one.sweep->metric));
}

std::string colours_text(const ColourRange& colours, bool alone) {
  std::string text = alone ? "" : " The colours mean the same in all grids of this metric.";
  if (colours.is_cut)
    text += fmt::format(" All above {:.3g}, the loss of predicting the mean, has the darkest one.", colours.high);
  return text;
}

void add_heat_map(ModelParts& parts, const NamedGrid& one, const Threshold& threshold, const ColourRange& colours,
                  bool alone) {
  const Grid& grid = one.grid;
  FigureText text;
  text.id = unused_id(parts.figures, "heatmap-" + id_of(one.sweep->name));
  text.kind = "heatmap";
  text.part = "Sweeps";
  text.title = fmt::format("{} over the grid: {}", one.sweep->metric, one.sweep->name);
  const std::string key_numbers = describe(*one.sweep) + trained_text(one, threshold, alone);
  text.caption = fmt::format(
      "Colour: log10 of {}, brighter is better; grey with a cross: diverged or failed; empty: not run; the star: the "
      "best.{}{} {}",
      one.sweep->metric, colours_text(colours, alone),
      grid.projected ? " Each cell has the best over the parameters not shown." : "", key_numbers);
  text.label = text.title + ". " + key_numbers;
  Json figure = make_figure(text, reproduce(*one.sweep));
  figure["x"] = axis_json(grid.x);
  figure["y"] = axis_json(grid.y);
  figure["metric"] = one.sweep->metric;
  figure["colours"] = {number(colours.low), number(colours.high)};
  figure["value"] = matrix_json(grid, [&](std::size_t cell) { return number(grid.value[cell]); });
  figure["state"] = matrix_json(grid, [&](std::size_t cell) { return Json(name_of(grid.state[cell])); });
  parts.figures.push_back(std::move(figure));
}

bool comparable(const NamedGrid& a, const NamedGrid& b) {
  return a.grid.columns() == b.grid.columns() && a.grid.rows() == b.grid.rows() && a.sweep->metric == b.sweep->metric;
}

std::string axes_text(const NamedGrid& first, const NamedGrid& second) {
  std::string text;
  for (const auto& [a, b] : {std::pair(&first.grid.x, &second.grid.x), std::pair(&first.grid.y, &second.grid.y)})
    if (a->key != b->key || a->values != b->values)
      text += fmt::format(" Cells are matched by place: {} from {:.3g} to {:.3g} beside {} from {:.3g} to {:.3g}.",
                          a->key, a->values.front(), a->values.back(), b->key, b->values.front(), b->values.back());
  return text;
}

std::string gap_numbers(const NamedGrid& first, const NamedGrid& second, const GridGap& gap,
                        const Threshold& threshold) {
  std::string text = fmt::format("{} is better in {}, {} in {}", second.sweep->name, percent(gap.second, gap.compared),
                                 first.sweep->name, percent(gap.first, gap.compared));
  if (gap.equal > 0) text += fmt::format("; within 2 % of each other in {}", percent(gap.equal, gap.compared));
  if (gap.both_lost > 0) text += fmt::format("; in {} neither trained", gap.both_lost);
  text += ".";
  if (std::isfinite(threshold.value))
    text += fmt::format(" Trained below {}: {} {:.0f} %, {} {:.0f} %.", threshold_text(threshold, first.sweep->metric),
                        first.sweep->name, 100 * share_below(first.grid, threshold.value), second.sweep->name,
                        100 * share_below(second.grid, threshold.value));
  return text;
}

void add_gap(ModelParts& parts, const NamedGrid& first, const NamedGrid& second, const Threshold& threshold) {
  const GridGap gap = compare(first.grid, second.grid);
  const std::string key_numbers = gap_numbers(first, second, gap, threshold);
  FigureText text;
  text.id = unused_id(parts.figures, "gap-" + id_of(first.sweep->name) + "-" + id_of(second.sweep->name));
  text.kind = "gap";
  text.part = "Sweeps";
  text.title = fmt::format("Which is better: {} or {}", first.sweep->name, second.sweep->name);
  text.caption = fmt::format(
      "log10 of {} of {} over that of {}. Red: {} is better; blue: {} is. A dot: the other one "
      "diverged; grey with a cross: both did. {}{}",
      first.sweep->metric, first.sweep->name, second.sweep->name, second.sweep->name, first.sweep->name, key_numbers,
      axes_text(first, second));
  text.label = text.title + ". " + key_numbers;
  std::vector<std::string> commands = reproduce(*first.sweep);
  for (std::string& command : reproduce(*second.sweep)) commands.push_back(std::move(command));
  Json figure = make_figure(text, commands);
  figure["x"] = shared_axis_json(first.grid.x, second.grid.x);
  figure["y"] = shared_axis_json(first.grid.y, second.grid.y);
  figure["names"] = {first.sweep->name, second.sweep->name};
  figure["gap"] = matrix_json(first.grid, [&](std::size_t cell) { return number(gap.gap[cell]); });
  figure["better"] = matrix_json(first.grid, [&](std::size_t cell) { return Json(gap.better[cell]); });
  for (const auto& [key, grid] : {std::pair("first", &first.grid), std::pair("second", &second.grid)}) {
    figure[key] = matrix_json(*grid, [&, g = grid](std::size_t cell) { return number(g->value[cell]); });
    figure[std::string(key) + "_state"] =
        matrix_json(*grid, [&, g = grid](std::size_t cell) { return Json(name_of(g->state[cell])); });
  }
  parts.figures.push_back(std::move(figure));
}

}  // namespace

void add_grid_figures(ModelParts& parts, const std::vector<Sweep>& sweeps) {
  const std::vector<NamedGrid> grids = grids_of(sweeps);
  for (const NamedGrid& one : grids) {
    const Peers peers = peers_of(one, grids);
    const Threshold threshold = common_threshold(peers.sweeps, peers.grids);
    add_heat_map(parts, one, threshold, common_colours(peers.grids, threshold), peers.grids.size() == 1);
  }
  std::size_t gaps = 0;
  for (std::size_t i = 0; i < grids.size(); ++i)
    for (std::size_t j = i + 1; j < grids.size(); ++j) {
      if (!comparable(grids[i], grids[j]) || gaps++ >= kMostGaps) continue;
      const Peers peers = peers_of(grids[i], grids);
      add_gap(parts, grids[i], grids[j], common_threshold(peers.sweeps, peers.grids));
    }
}

}  // namespace spectralclip::lab::report

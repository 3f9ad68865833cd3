// SPDX-License-Identifier: Apache-2.0
// Measured convergence against the theorems: errors over K with their bounds, exponents, and how tight the bounds are.
#include <fmt/core.h>

#include <cmath>

#include "report/figures.h"
#include "report/model_parts.h"
#include "studies/fit.h"

namespace spectralclip::lab::report {
namespace {

struct RateCurve {
  std::string label;
  std::string method;
  const Run* run = nullptr;
  std::vector<RatePoint> points;  // by K
};

// A name that every curve has tells nothing; the seed is named only when there are several runs.
std::vector<RateCurve> curves_of(const std::vector<const Group*>& groups, const std::string& theorem) {
  std::vector<RateCurve> curves;
  for (const Group* group : groups)
    for (const Run* run : group->runs) {
      Named<std::vector<RatePoint>> by_method;
      for (const RatePoint& point : run->rates)
        if (point.theorem == theorem) find_or_add(by_method, point.method).push_back(point);
      for (auto& [method, points] : by_method) {
        std::stable_sort(points.begin(), points.end(), [](auto& a, auto& b) { return a.K < b.K; });
        std::string label = groups.size() > 1 ? group->label + ": " + method : method;
        if (group->runs.size() > 1) label += fmt::format(", seed {}", run->seed);
        curves.push_back({std::move(label), method, run, std::move(points)});
      }
    }
  return curves;
}

std::vector<std::string> theorems_of(const std::vector<const Group*>& groups) {
  std::vector<std::string> theorems;
  for (const Group* group : groups)
    for (const Run* run : group->runs)
      for (const RatePoint& point : run->rates)
        if (std::find(theorems.begin(), theorems.end(), point.theorem) == theorems.end())
          theorems.push_back(point.theorem);
  std::sort(theorems.begin(), theorems.end());
  return theorems;
}

// Keys of results: spectral_exponent for Theorem 2, spectral_theorem1_exponent for Theorem 1.
std::string result_prefix(const std::string& method, const std::string& theorem) {
  return method + (theorem == "2" ? "_" : "_theorem" + theorem + "_");
}

template <class Member>
std::vector<double> column(const RateCurve& curve, Member member) {
  std::vector<double> values;
  for (const RatePoint& point : curve.points) values.push_back(point.*member);
  return values;
}

using Column = double RatePoint::*;

// The two estimates that the task gives of what a theorem bounds.
struct Estimate {
  const char* title;
  const char* prefix;  // of its keys in results
  Column value, low, high;
};
constexpr Estimate kMeasured = {"least over tenths of the run", "", &RatePoint::measured, &RatePoint::low,
                                &RatePoint::high};
constexpr Estimate kAverage = {"average over all steps", "average_", &RatePoint::average, &RatePoint::average_low,
                               &RatePoint::average_high};

bool is_recorded(const std::vector<RateCurve>& curves, const Estimate& estimate) {
  for (const RateCurve& curve : curves)
    for (const RatePoint& point : curve.points)
      if (std::isfinite(point.*estimate.value)) return true;
  return false;
}

double largest_ratio(const RateCurve& curve, const Estimate& estimate) {
  double largest = kNothing;
  for (const RatePoint& point : curve.points) largest = std::fmax(largest, point.*estimate.value / point.bound);
  return largest;
}

// As the task fitted it, or the same fit to its lines while the run has no results yet.
Interval exponent_of(const RateCurve& curve, const std::string& theorem, const Estimate& estimate) {
  const std::string key = result_prefix(curve.method, theorem) + estimate.prefix + "exponent";
  const Interval given = {result_of(*curve.run, key), result_of(*curve.run, key + "_low"),
                          result_of(*curve.run, key + "_high")};
  if (std::isfinite(given.value)) return given;
  return fit_exponent(column(curve, &RatePoint::K), column(curve, estimate.value));
}

double theory_of(const RateCurve& curve, const std::string& theorem) {
  const double given = result_of(*curve.run, result_prefix(curve.method, theorem) + "theory");
  return std::isfinite(given) ? given
                              : fit_exponent(column(curve, &RatePoint::K), column(curve, &RatePoint::bound)).value;
}

std::string shown(double value) { return std::isfinite(value) ? fmt::format("{:.3g}", value) : "–"; }

std::string shown(const Interval& interval) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return shown(interval.value);
  return fmt::format("{:.3g} ({:.3g} to {:.3g})", interval.value, interval.low, interval.high);
}

Json exponent_table(const std::vector<RateCurve>& curves, const std::string& theorem, const Estimate& estimate) {
  Json rows = Json::array();
  for (const RateCurve& curve : curves) {
    const Interval exponent = exponent_of(curve, theorem, estimate);
    const double theory = theory_of(curve, theorem), ratio = largest_ratio(curve, estimate);
    rows.push_back({make_cell(curve.label), make_cell(shown(exponent), exponent.value),
                    make_cell(shown(theory), theory), make_cell(shown(ratio), ratio)});
  }
  return make_table({"method", "measured exponent (95 %)", "theory", "largest measured / bound"}, std::move(rows));
}

Json view_json(const std::vector<RateCurve>& curves, const std::string& theorem, const Estimate& estimate) {
  Json list = Json::array();
  for (const RateCurve& curve : curves)
    list.push_back({{"label", curve.label},
                    {"style", list.size()},
                    {"K", numbers(column(curve, &RatePoint::K))},
                    {"measured", numbers(column(curve, estimate.value))},
                    {"low", numbers(column(curve, estimate.low))},
                    {"high", numbers(column(curve, estimate.high))},
                    {"bound", numbers(column(curve, &RatePoint::bound))}});
  return {{"label", estimate.title}, {"curves", std::move(list)}, {"table", exponent_table(curves, theorem, estimate)}};
}

std::string key_numbers(const std::vector<RateCurve>& curves, const std::string& theorem) {
  std::string text;
  for (const RateCurve& curve : curves)
    text += fmt::format(" {}: measured exponent {}, theory {}, largest measured / bound {}.", curve.label,
                        shown(exponent_of(curve, theorem, kMeasured).value), shown(theory_of(curve, theorem)),
                        shown(largest_ratio(curve, kMeasured)));
  return text;
}

std::string verdict(const std::vector<RateCurve>& curves) {
  std::size_t above = 0, bounded = 0;
  for (const RateCurve& curve : curves) {
    above += largest_ratio(curve, kMeasured) > 1;
    bounded += std::isfinite(largest_ratio(curve, kMeasured));
  }
  if (bounded == 0) return "The theorem gives no bound here.";
  if (above == 0) return "Every measured point lies below its bound.";
  return fmt::format("{} of {} curves cross their bound.", above, bounded);
}

// What the theorem bounds.
std::string quantity(const std::string& theorem) {
  if (theorem == "1") return "E ‖∇f‖²";
  return theorem == "2" ? "E min(‖∇f‖, ‖∇f‖²)" : "error";
}

}  // namespace

void add_rate_figures(ModelParts& parts, const std::vector<const Group*>& groups) {
  for (const std::string& theorem : theorems_of(groups)) {
    const std::vector<RateCurve> curves = curves_of(groups, theorem);
    FigureText text;
    text.id = unused_id(parts.figures, "rates-" + id_of(theorem));
    text.kind = "rates";
    text.part = groups.front()->task;
    text.title = "Rate of convergence: " + (theorem.size() < 3 ? "Theorem " + theorem : theorem);
    text.caption =
        "What the theorem bounds, measured after K steps (points, with the 95 % interval over repeated runs), and the "
        "bound itself for these very constants (dashed). " +
        verdict(curves) + " Exponents are slopes of straight lines through the logarithms.";
    text.label = text.title + "." + key_numbers(curves, theorem);
    Json figure = make_figure(text, commands_of(groups));
    figure["x"] = make_axis("K, number of steps", true);
    figure["y"] = make_axis(quantity(theorem), true);
    figure["views"] = Json::array({view_json(curves, theorem, kMeasured)});
    if (is_recorded(curves, kAverage)) figure["views"].push_back(view_json(curves, theorem, kAverage));
    parts.figures.push_back(std::move(figure));
  }
}

}  // namespace spectralclip::lab::report

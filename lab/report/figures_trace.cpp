// SPDX-License-Identifier: Apache-2.0
// The studies without a neural network: the bias of clipping in trace regression.
#include <fmt/core.h>

#include "report/figures.h"
#include "report/model_parts.h"

namespace spectralclip::lab::report {
namespace {

bool is_method(const std::string& key) {
  return key != "loss" && key != "lr" && !key.starts_with("grad_norm") && !key.ends_with("_loss");
}

std::vector<std::string> methods_of(const Group& group) {
  std::vector<std::string> methods;
  for (const Run* run : group.runs)
    for (const auto& [key, series] : run->metrics)
      if (is_method(key) && std::find(methods.begin(), methods.end(), key) == methods.end()) methods.push_back(key);
  return methods;
}

struct MethodCurve {
  std::string method;
  SeedCurve curve;
};

std::vector<MethodCurve> curves_of(const Group& group) {
  std::vector<MethodCurve> curves;
  for (const std::string& method : methods_of(group)) {
    std::vector<const MetricSeries*> runs;
    for (const Run* run : group.runs)
      if (const MetricSeries* series = find(run->metrics, method)) runs.push_back(series);
    MethodCurve one{method, over_seeds(runs, Spacing::logarithmic)};
    if (!one.curve.step.empty()) curves.push_back(std::move(one));
  }
  return curves;
}

std::string last_values(std::vector<MethodCurve> curves) {
  std::stable_sort(curves.begin(), curves.end(), [](const MethodCurve& a, const MethodCurve& b) {
    return a.curve.mean.back() < b.curve.mean.back();
  });
  std::string text;
  for (const MethodCurve& one : curves)
    text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", one.method, one.curve.mean.back());
  return "At the last step, smallest first: " + text + ".";
}

// A logarithmic axis has no place for them.
std::string without_bias(const std::vector<MethodCurve>& curves) {
  std::string text;
  for (const MethodCurve& one : curves)
    if (one.curve.mean.back() == 0) text += (text.empty() ? "" : ", ") + one.method;
  return text.empty() ? text : " Without any bias, and so not on the logarithmic axis: " + text + ".";
}

// The bias at the end of the curve and, where the task gives it, over the last tenth of the steps alone.
Json bias_table(const Group& group, const std::vector<MethodCurve>& curves) {
  const auto over_runs = [&](const std::string& key) {
    std::vector<double> values;
    for (const Run* run : group.runs) values.push_back(result_of(*run, key));
    return statistic(values);
  };
  Json rows = Json::array();
  for (const MethodCurve& one : curves) {
    const Statistic all = over_runs(one.method), last = over_runs(one.method + "_last_tenth");
    rows.push_back({make_cell(one.method), make_cell(spread(all), all.mean), make_cell(spread(last), last.mean)});
  }
  return make_table({"method", "average bias, all steps", "average bias, last tenth"}, std::move(rows));
}

Json references(ModelParts& parts, const std::vector<MethodCurve>& curves) {
  Json list = Json::array();
  for (const MethodCurve& one : curves) {
    list.push_back({{"label", one.method}, {"style", list.size()}, {"series", parts.series.size()}});
    parts.series.push_back(make_series(one.curve));
  }
  return list;
}

}  // namespace

void add_trace_figures(ModelParts& parts, const std::vector<const Group*>& groups) {
  for (const Group* group : groups) {
    const std::vector<MethodCurve> curves = curves_of(*group);
    if (curves.empty()) continue;
    FigureText text;
    text.id = unused_id(parts.figures, "trace-bias-" + id_of(group->label));
    text.kind = "curves";
    text.part = group->task;
    text.title = "Bias of clipping: " + group->label;
    text.caption = fmt::format(
        "Average over the steps so far of the squared bias that clipping puts into the gradient, for each threshold "
        "rule; {}, band from the lowest to the highest. A falling line: the rule's bias fades away; a level one: it "
        "stays. {}{}",
        counted(group->runs.size(), "seed"), last_values(curves), without_bias(curves));
    text.label = text.title + ". " + last_values(curves);
    Json figure = make_figure(text, commands_of({group}));
    figure["x"] = make_axis("step", true);
    figure["x"]["key"] = "step";
    figure["y"] = make_axis("cumulative average bias", true);
    figure["views"] = Json::array({{{"label", "bias"}, {"curves", references(parts, curves)}}});
    figure["table"] = bias_table(*group, curves);
    parts.figures.push_back(std::move(figure));
  }
}

}  // namespace spectralclip::lab::report

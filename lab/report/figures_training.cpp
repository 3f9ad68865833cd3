// SPDX-License-Identifier: Apache-2.0
// Curves over steps and over seconds: one a group, the mean over seeds with its spread.
#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "report/figures.h"
#include "report/model_parts.h"

namespace spectralclip::lab::report {
namespace {

struct Quantity {
  std::string key, label;
  bool larger_is_better = false;
};

// As the task declares it, if it does.
const MetricInfo* info_of(const std::vector<const Group*>& groups, const std::string& key) {
  for (const Group* group : groups)
    for (const Run* run : group->runs)
      if (const MetricInfo* info = find(run->metric_infos, key)) return info;
  return nullptr;
}

// Metrics that are no losses ("accuracy"): figures of their own.
std::vector<std::string> other_metrics(const std::vector<const Group*>& groups) {
  std::vector<std::string> keys;
  for (const Group* group : groups)
    for (const Run* run : group->runs)
      for (const auto& [key, info] : run->metric_infos)
        if (!key.ends_with("loss") && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  return keys;
}

std::string label_of(const std::string& key) {
  if (key == "train_loss") return "training loss (train_loss, whole set)";
  if (key == "loss") return "training loss (loss, of the batch)";
  if (key == "val_loss") return "validation loss (val_loss)";
  return key;
}

// Those of `keys` that some run has.
std::vector<Quantity> recorded(const std::vector<const Group*>& groups, const std::vector<std::string>& keys) {
  std::vector<Quantity> quantities;
  for (const std::string& key : keys) {
    bool has_it = false;
    for (const Group* group : groups)
      for (const Run* run : group->runs) has_it = has_it || find(run->metrics, key) != nullptr;
    if (!has_it) continue;
    const MetricInfo* info = info_of(groups, key);
    const bool named = info != nullptr && !info->label.empty() && !key.ends_with("loss");
    const std::string unit = info == nullptr || info->unit.empty() ? "" : ", " + info->unit;
    quantities.push_back({key, named ? fmt::format("{} ({}{})", info->label, key, unit) : label_of(key),
                          info != nullptr && info->larger_is_better});
  }
  return quantities;
}

// In their order, but the learning rate last: it is the least news.
std::vector<std::string> other_keys(const std::vector<const Group*>& groups) {
  std::vector<std::string> keys;
  for (const Group* group : groups)
    for (const Run* run : group->runs)
      for (const auto& [key, series] : run->metrics)
        if (key != "loss" && key != "train_loss" && key != "val_loss" && find(run->metric_infos, key) == nullptr &&
            std::find(keys.begin(), keys.end(), key) == keys.end())
          keys.push_back(key);
  std::stable_partition(keys.begin(), keys.end(), [](const std::string& key) { return key != "lr"; });
  return keys;
}

// A curve that was put into the model, and what a caption needs of it.
struct PlacedCurve {
  Json reference;
  std::string label;
  double last = kNothing;
  bool timed = false;
  std::size_t points = 0;
};

std::optional<PlacedCurve> place_curve(ModelParts& parts, const Group& group, const std::string& key) {
  std::vector<const MetricSeries*> runs;
  for (const Run* run : group.runs)
    if (const MetricSeries* series = find(run->metrics, key)) runs.push_back(series);
  const SeedCurve curve = over_seeds(runs, Spacing::linear);
  if (curve.step.empty()) return std::nullopt;
  PlacedCurve placed;
  placed.label = group.label;
  placed.reference = {{"label", group.label}, {"style", group.style}, {"series", parts.series.size()}};
  placed.last = curve.mean.back();
  placed.points = curve.step.size();
  placed.timed = std::any_of(curve.seconds.begin(), curve.seconds.end(), [](double s) { return std::isfinite(s); });
  parts.series.push_back(make_series(curve));
  return placed;
}

struct View {
  Quantity quantity;
  std::vector<PlacedCurve> curves;
};

std::vector<View> place_views(ModelParts& parts, const std::vector<const Group*>& groups,
                              const std::vector<Quantity>& quantities) {
  std::vector<View> views;
  for (const Quantity& quantity : quantities) {
    View view{quantity, {}};
    for (const Group* group : groups)
      if (auto curve = place_curve(parts, *group, quantity.key)) view.curves.push_back(std::move(*curve));
    if (!view.curves.empty()) views.push_back(std::move(view));
  }
  // The page shows the first: not one that was measured at the end alone, when there is a curve.
  std::stable_partition(views.begin(), views.end(), [](const View& view) {
    return std::any_of(view.curves.begin(), view.curves.end(), [](const PlacedCurve& one) { return one.points > 1; });
  });
  return views;
}

Json views_json(const std::vector<View>& views) {
  Json list = Json::array();
  for (const View& view : views) {
    Json curves = Json::array();
    for (const PlacedCurve& curve : view.curves) curves.push_back(curve.reference);
    list.push_back({{"label", view.quantity.label}, {"curves", std::move(curves)}});
  }
  return list;
}

// "Last values of train_loss, smallest first: a 0.01, b 0.02, …"
std::string last_values(const View& view, std::size_t limit) {
  std::vector<const PlacedCurve*> sorted;
  for (const PlacedCurve& curve : view.curves) sorted.push_back(&curve);
  const bool larger = view.quantity.larger_is_better;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](auto* a, auto* b) { return larger ? a->last > b->last : a->last < b->last; });
  std::string text = fmt::format("Last values of {}, {} first: ", view.quantity.key, larger ? "largest" : "smallest");
  for (std::size_t i = 0; i < std::min(limit, sorted.size()); ++i)
    text += fmt::format("{}{} {:.3g}", i == 0 ? "" : ", ", sorted[i]->label, sorted[i]->last);
  return text + (sorted.size() > limit ? ", …" : ".");
}

std::string about_seeds(const std::vector<const Group*>& groups) {
  std::size_t most = 0;
  int diverged = 0;
  for (const Group* group : groups) {
    most = std::max(most, group->runs.size());
    diverged += group->diverged;
  }
  std::string text = most > 1 ? fmt::format(" A line is the mean over up to {} seeds, the band their spread.", most)
                              : " One seed each.";
  if (diverged > 0)
    text += fmt::format(" {} diverged: a curve goes on with the seeds that are left.",
                        counted(static_cast<std::size_t>(diverged), "run"));
  return text;
}

struct CurvesText {
  std::string id, title, what, x_key, x_title, y_title;
  bool log = true;  // the vertical axis
};

void add_curves(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups,
                const std::vector<View>& views, const CurvesText& text) {
  if (views.empty()) return;
  const std::string values = last_values(views.front(), 4);
  FigureText figure_text;
  figure_text.id = unused_id(parts.figures, text.id);
  figure_text.kind = "curves";
  figure_text.part = task;
  figure_text.title = text.title;
  figure_text.caption = text.what + about_seeds(groups) + " " + values;
  figure_text.label = fmt::format("{}. {}", text.title, last_values(views.front(), 12));
  Json figure = make_figure(figure_text, commands_of(groups));
  figure["x"] = make_axis(text.x_title, false);
  figure["x"]["key"] = text.x_key;
  figure["y"] = make_axis(text.y_title, text.log);
  figure["views"] = views_json(views);
  parts.figures.push_back(std::move(figure));
}

std::vector<View> timed_views(std::vector<View> views) {
  for (View& view : views) std::erase_if(view.curves, [](const PlacedCurve& curve) { return !curve.timed; });
  std::erase_if(views, [](const View& view) { return view.curves.empty(); });
  return views;
}

}  // namespace

void add_training_figures(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  const std::vector<View> training = place_views(parts, groups, recorded(groups, {"train_loss", "loss"}));
  const std::vector<View> validation = place_views(parts, groups, recorded(groups, {"val_loss"}));
  const std::vector<View> others = place_views(parts, groups, recorded(groups, other_keys(groups)));
  std::vector<View> losses = training;
  losses.insert(losses.end(), validation.begin(), validation.end());
  add_curves(
      parts, task, groups, training,
      {"training-loss-steps", "Training loss over steps",
       "Training loss: of the batch, or of the whole set where that was evaluated.", "step", "step", "training loss"});
  add_curves(parts, task, groups, validation,
             {"validation-loss-steps", "Validation loss over steps", "Loss on samples that are not trained on.", "step",
              "step", "validation loss"});
  add_curves(parts, task, groups, timed_views(losses),
             {"loss-seconds", "Loss over wall-clock time",
              "The same losses against the time since the first step; both are means over seeds at the same step.",
              "seconds", "seconds of training", "loss"});
  for (const std::string& key : other_metrics(groups)) {
    const std::vector<View> metric = place_views(parts, groups, recorded(groups, {key}));
    if (metric.empty()) continue;
    const std::string label = metric.front().quantity.label;
    const CurvesText steps{key + "-steps", label + " over steps", "A metric of the task.", "step", "step", label,
                           false};
    const CurvesText seconds{key + "-seconds",
                             label + " over wall-clock time",
                             "The same against the time since the first step.",
                             "seconds",
                             "seconds of training",
                             label,
                             false};
    add_curves(parts, task, groups, metric, steps);
    add_curves(parts, task, groups, timed_views(metric), seconds);
  }
  add_curves(parts, task, groups, others,
             {"other-quantities", "Everything else that was recorded",
              "Gradient norms before and after clipping, learning rate and other quantities of the task; choose one.",
              "step", "step", ""});
}

}  // namespace spectralclip::lab::report

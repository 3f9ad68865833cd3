// SPDX-License-Identifier: Apache-2.0
// What clipping did to each layer: thresholds, how often, and whole spectra.
#include <fmt/core.h>

#include <cmath>

#include "report/figures.h"
#include "report/model_parts.h"
#include "report/thin.h"

namespace spectralclip::lab::report {
namespace {

constexpr std::size_t kLayerNumbers = 600000;     // per figure: about 5 MB of page
constexpr std::size_t kSpectrumNumbers = 400000;  // likewise
constexpr std::size_t kLeastPoints = 100;         // of a curve, however many there are
constexpr std::size_t kMostSpectra = 60;          // stops of the slider

std::string run_label(const Group& group, const Run& run) {
  return group.runs.size() > 1 ? fmt::format("{}, seed {}", group.label, run.seed) : group.label;
}

template <class Visit>
void for_each_run(const std::vector<const Group*>& groups, Visit visit) {
  for (const Group* group : groups)
    for (const Run* run : group->runs) visit(*group, *run);
}

Json layer_json(const std::string& name, const LayerSeries& layer, std::size_t limit) {
  std::vector<double> step, sigma, tau;
  for (const std::size_t i : envelope(layer.sigma, limit)) {
    step.push_back(layer.step[i]);
    sigma.push_back(layer.sigma[i]);
    tau.push_back(layer.tau[i]);
  }
  return {{"name", name}, {"step", numbers(step)}, {"sigma", numbers(sigma)}, {"tau", numbers(tau)}};
}

Json threshold_runs(const std::vector<const Group*>& groups) {
  std::size_t curves = 0;
  for_each_run(groups, [&](const Group&, const Run& run) { curves += run.layers.size(); });
  const std::size_t limit =
      std::clamp(kLayerNumbers / 3 / std::max<std::size_t>(1, curves), kLeastPoints, kCurvePoints);
  Json runs = Json::array();
  for_each_run(groups, [&](const Group& group, const Run& run) {
    Json layers = Json::array();
    for (const auto& [name, layer] : run.layers) layers.push_back(layer_json(name, layer, limit));
    if (!layers.empty()) runs.push_back({{"label", run_label(group, run)}, {"layers", std::move(layers)}});
  });
  // Those that have a threshold first: the page shows the first one.
  const auto has_threshold = [](const Json& run) {
    return std::any_of(run["layers"].begin(), run["layers"].end(), [](const Json& layer) {
      return std::any_of(layer["tau"].begin(), layer["tau"].end(), [](const Json& tau) { return tau.is_number(); });
    });
  };
  std::stable_partition(runs.begin(), runs.end(), has_threshold);
  return runs;
}

void add_thresholds(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  Json runs = threshold_runs(groups);
  if (runs.empty()) return;
  FigureText text;
  text.id = unused_id(parts.figures, "thresholds");
  text.kind = "thresholds";
  text.part = task;
  text.title = "Threshold and largest singular value of a layer";
  text.caption =
      "sigma_max of the gradient before clipping, and the threshold tau that met it: where sigma_max stands "
      "above tau, the layer was clipped. No line for tau: not clipped at all. Choose a run and a layer.";
  text.label = fmt::format("{}: {}, {} in the first.", text.title, counted(runs.size(), "run"),
                           counted(runs[0]["layers"].size(), "layer"));
  Json figure = make_figure(text, commands_of(groups));
  figure["x"] = make_axis("step", false);
  figure["y"] = make_axis("singular value", true);
  figure["runs"] = std::move(runs);
  parts.figures.push_back(std::move(figure));
}

// A group without any threshold is not clipped by layers; its zeros would say nothing.
bool has_thresholds(const Group& group) {
  for (const Run* run : group.runs)
    for (const auto& [name, layer] : run->layers)
      if (layer.steps_clipped > 0 || std::any_of(layer.tau.begin(), layer.tau.end(), [](double t) { return t >= 0; }))
        return true;
  return false;
}

Statistic share_clipped(const Group& group, const std::string& layer_name) {
  std::vector<double> shares;
  for (const Run* run : group.runs)
    if (const LayerSeries* layer = find(run->layers, layer_name); layer && layer->steps > 0)
      shares.push_back(layer->steps_clipped / layer->steps);
  return statistic(shares);
}

std::vector<std::string> layer_names(const std::vector<const Group*>& groups) {
  std::vector<std::string> names;
  for_each_run(groups, [&](const Group&, const Run& run) {
    for (const auto& [name, layer] : run.layers)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  });
  return names;
}

Json bars_of(const Group& group, const std::vector<std::string>& names) {
  Json mean = Json::array(), low = Json::array(), high = Json::array();
  for (const std::string& name : names) {
    const Statistic share = share_clipped(group, name);
    mean.push_back(number(share.mean));
    low.push_back(number(share.low));
    high.push_back(number(share.high));
  }
  return {{"label", group.label}, {"style", group.style}, {"mean", mean}, {"low", low}, {"high", high}};
}

std::string most_clipped(const std::vector<const Group*>& groups, const std::vector<std::string>& names) {
  std::string text;
  double most = -1;
  for (const Group* group : groups)
    for (const std::string& name : names)
      if (const Statistic share = share_clipped(*group, name); share.mean > most) {
        most = share.mean;
        text = fmt::format("Most often: {} of {}, in {:.3g} % of the steps.", name, group->label, 100 * most);
      }
  return text;
}

// Empty where every clip is certain to have left nothing above its threshold.
std::string unsettled_text(const std::vector<const Group*>& groups) {
  double lines = 0, unsettled = 0;
  for_each_run(groups, [&](const Group&, const Run& run) {
    for (const auto& [name, layer] : run.layers) {
      lines += static_cast<double>(layer.step.size());
      unsettled += layer.unsettled;
    }
  });
  if (unsettled == 0) return "";
  return fmt::format(" In {:.3g} % of the recorded clips something above the threshold may remain.",
                     100 * unsettled / lines);
}

void add_clip_shares(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  const std::vector<std::string> names = layer_names(groups);
  Json bars = Json::array();
  for (const Group* group : groups)
    if (has_thresholds(*group)) bars.push_back(bars_of(*group, names));
  if (bars.empty()) return;
  FigureText text;
  text.id = unused_id(parts.figures, "clip-share");
  text.kind = "bars";
  text.part = task;
  text.title = "How often each layer was clipped";
  text.caption =
      "Share of the steps in which at least one singular value of the layer's gradient was above the "
      "threshold; mean over seeds, whiskers from the lowest to the highest. " +
      most_clipped(groups, names) + unsettled_text(groups);
  text.label = text.title + ". " + most_clipped(groups, names);
  Json figure = make_figure(text, commands_of(groups));
  figure["layers"] = names;
  figure["bars"] = std::move(bars);
  parts.figures.push_back(std::move(figure));
}

std::size_t widest_spectrum(const std::vector<const Group*>& groups) {
  std::size_t widest = 1;
  for_each_run(groups, [&](const Group&, const Run& run) {
    for (const auto& [name, spectra] : run.spectra)
      for (const Spectrum& one : spectra) widest = std::max(widest, one.before.size());
  });
  return widest;
}

Json spectra_runs(const std::vector<const Group*>& groups) {
  std::size_t layers_in_all = 0;
  for_each_run(groups, [&](const Group&, const Run& run) { layers_in_all += run.spectra.size(); });
  const std::size_t affordable =
      kSpectrumNumbers / (2 * widest_spectrum(groups) * std::max<std::size_t>(1, layers_in_all));
  const std::size_t limit = std::clamp<std::size_t>(affordable, 2, kMostSpectra);
  Json runs = Json::array();
  for_each_run(groups, [&](const Group& group, const Run& run) {
    Json layers = Json::array();
    for (const auto& [name, spectra] : run.spectra) {
      Json stops = Json::array();
      for (const std::size_t i : evenly(spectra.size(), limit))
        stops.push_back({{"step", number(spectra[i].step)},
                         {"before", numbers(spectra[i].before)},
                         {"after", numbers(spectra[i].after)}});
      layers.push_back({{"name", name}, {"stops", std::move(stops)}});
    }
    if (!layers.empty()) runs.push_back({{"label", run_label(group, run)}, {"layers", std::move(layers)}});
  });
  return runs;
}

void add_spectra(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  Json runs = spectra_runs(groups);
  if (runs.empty()) return;
  FigureText text;
  text.id = unused_id(parts.figures, "spectra");
  text.kind = "spectra";
  text.part = task;
  text.title = "Singular values before and after clipping";
  text.caption =
      "All singular values of one gradient, largest first. Clipping cuts off the top at tau and leaves the "
      "rest where it was. Choose a run, a layer and a step.";
  text.label = fmt::format("{}: {}, {} recorded for the first layer of the first.", text.title,
                           counted(runs.size(), "run"), counted(runs[0]["layers"][0]["stops"].size(), "step"));
  Json figure = make_figure(text, commands_of(groups));
  figure["x"] = make_axis("index", false);
  figure["y"] = make_axis("singular value", true);
  figure["runs"] = std::move(runs);
  parts.figures.push_back(std::move(figure));
}

}  // namespace

void add_layer_figures(ModelParts& parts, const std::string& task, const std::vector<const Group*>& groups) {
  add_thresholds(parts, task, groups);
  add_clip_shares(parts, task, groups);
  add_spectra(parts, task, groups);
}

}  // namespace spectralclip::lab::report

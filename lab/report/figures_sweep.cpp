// SPDX-License-Identifier: Apache-2.0
// A search: what its trials gave, in their order and against each parameter.
#include <fmt/core.h>

#include <cmath>

#include "report/figures.h"
#include "report/model_parts.h"
#include "report/sweep_text.h"

namespace spectralclip::lab::report {
namespace {

// Best value so far after each trial; null before the first one that finished.
std::vector<double> running_best(const std::vector<Trial>& trials, bool larger) {
  std::vector<double> best;
  for (const Trial& trial : trials) {
    const double before = best.empty() ? kNothing : best.back();
    best.push_back(std::isnan(before) || (larger ? trial.value > before : trial.value < before) ? trial.value : before);
  }
  return best;
}

Json trials_json(const std::vector<Trial>& trials, bool larger) {
  Json number_of = Json::array(), value = Json::array(), status = Json::array();
  for (const Trial& trial : trials) {
    number_of.push_back(trial.number);
    value.push_back(number(trial.value));
    status.push_back(trial.status);
  }
  return {{"trial", number_of}, {"value", value}, {"status", status}, {"best", numbers(running_best(trials, larger))}};
}

Json parameters_json(const Sweep& sweep) {
  Json parameters = Json::array();
  for (const SearchAxis& axis : sweep.space) {
    std::vector<double> values;
    for (const Trial& trial : sweep.trials) {
      const double* value = find(trial.values, axis.key);
      values.push_back(value ? *value : kNothing);
    }
    parameters.push_back({{"title", axis.key}, {"log", axis.log}, {"values", numbers(values)}});
  }
  return parameters;
}

FigureText text_for(const Sweep& sweep, const std::string& kind, const std::string& title) {
  FigureText text;
  text.kind = kind;
  text.part = "Sweeps";
  text.title = title + sweep.name;
  text.label = text.title + ". " + describe(sweep);
  return text;
}

void add_trials(ModelParts& parts, const Sweep& sweep) {
  FigureText text = text_for(sweep, "trials", "Trials of ");
  text.id = unused_id(parts.figures, "trials-" + id_of(sweep.name));
  text.caption = "Each trial's " + sweep.metric +
                 " in the order of the search, and the best so far (line). A cross at "
                 "the upper edge: diverged or failed. " +
                 describe(sweep);
  Json figure = make_figure(text, reproduce(sweep));
  figure["x"] = make_axis("trial", false);
  figure["y"] = make_axis(sweep.metric, true);
  figure["trials"] = trials_json(sweep.trials, sweep.larger_is_better);
  parts.figures.push_back(std::move(figure));
}

void add_parameters(ModelParts& parts, const Sweep& sweep) {
  FigureText text = text_for(sweep, "parameters", "Parameters of ");
  text.id = unused_id(parts.figures, "parameters-" + id_of(sweep.name));
  text.caption =
      "The same values against each parameter that was searched; a cross at the upper edge: diverged or "
      "failed; the star: the best. A narrow valley: that parameter must be tuned.";
  Json figure = make_figure(text, reproduce(sweep));
  figure["y"] = make_axis(sweep.metric, true);
  figure["trials"] = trials_json(sweep.trials, sweep.larger_is_better);
  figure["parameters"] = parameters_json(sweep);
  parts.figures.push_back(std::move(figure));
}

}  // namespace

void add_sweep_figures(ModelParts& parts, const std::vector<Sweep>& sweeps) {
  for (const Sweep& sweep : sweeps) {
    if (sweep.trials.empty()) continue;
    add_trials(parts, sweep);
    if (!sweep.space.empty()) add_parameters(parts, sweep);
  }
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// The model: which figures there are, what they say, and their numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "lab/report_scratch.h"
#include "report/model.h"
#include "report/model_parts.h"

namespace spectralclip::lab::report {
namespace {

using testing::diverged_run;
using testing::finished_run;
using testing::small_grid;

Json model_of(Collection collection) { return make_model(collection, {"title", "command"}); }

std::vector<std::string> ids_of(const Json& model) {
  std::vector<std::string> ids;
  for (const Json& figure : model["figures"]) ids.push_back(figure["id"]);
  return ids;
}

Json figure_of(const Json& model, const std::string& id) {
  for (const Json& figure : model["figures"])
    if (figure["id"] == id) return figure;
  ADD_FAILURE() << "no figure " << id;
  return {};
}

report::Run trained_run(const std::string& name, std::uint64_t seed, double last) {
  report::Run run = finished_run(name, seed, last);
  run.metrics = {{"loss", {{1, 2}, {0.1, 0.2}, {1, last}}}, {"val_loss", {{2}, {0.2}, {2 * last}}}};
  return run;
}

TEST(ReportModel, NumbersAreShortAndNeverNaN) {
  EXPECT_EQ(number(1.0 / 3).dump(), "0.333333");
  EXPECT_EQ(number(30000).dump(), "30000");
  EXPECT_EQ(number(1.234567e-20).dump(), "1.23457e-20");
  EXPECT_EQ(number(kNothing).dump(), "null");
  EXPECT_EQ(number(HUGE_VAL).dump(), "null");
}

TEST(ReportModel, IdsAreSafeAndUnique) {
  EXPECT_EQ(id_of("A <b>x</b> ä"), "a-b-x-b");
  EXPECT_EQ(id_of("<>"), "unnamed");
  const Json figures = Json::array({{{"id", "x"}}, {{"id", "x-2"}}});
  EXPECT_EQ(unused_id(figures, "x"), "x-3");
}

TEST(ReportModel, OnlyFiguresWithData) {
  EXPECT_EQ(ids_of(model_of({{finished_run("a", 1, 1)}, {}, {}})), std::vector<std::string>());
  EXPECT_EQ(ids_of(model_of({{trained_run("a", 1, 0.5)}, {}, {}})),
            std::vector<std::string>({"training-loss-steps", "validation-loss-steps", "loss-seconds"}));
}

TEST(ReportModel, CurvesOverSecondsShareTheirSeries) {
  const Json model = model_of({{trained_run("a", 1, 0.5), trained_run("a", 2, 0.25)}, {}, {}});
  ASSERT_EQ(model["series"].size(), 2u);
  const Json steps = figure_of(model, "training-loss-steps"), seconds = figure_of(model, "loss-seconds");
  EXPECT_EQ(steps["views"][0]["curves"][0]["series"], seconds["views"][0]["curves"][0]["series"]);
  EXPECT_EQ(steps["x"]["key"], "step");
  EXPECT_EQ(seconds["x"]["key"], "seconds");
  EXPECT_EQ(model["series"][0]["mean"].dump(), "[1,0.375]");
  EXPECT_EQ(model["series"][0]["low"].dump(), "[1,0.25]");
  EXPECT_EQ(steps["commands"].dump(), R"(["spectralclip run a"])");
}

TEST(ReportModel, ACurveIsShownBeforeANumberMeasuredAtTheEndAlone) {
  report::Run run = trained_run("a", 1, 0.5);
  run.metrics.push_back({"train_loss", {{2}, {0.2}, {0.5}}});
  const Json views = figure_of(model_of({{run}, {}, {}}), "training-loss-steps")["views"];
  EXPECT_EQ(views[0]["label"], "training loss (loss, of the batch)");
  EXPECT_EQ(views[1]["label"], "training loss (train_loss, whole set)");
  run.metrics.back().second = {{1, 2}, {0.1, 0.2}, {1, 0.5}};
  EXPECT_EQ(figure_of(model_of({{run}, {}, {}}), "training-loss-steps")["views"][0]["label"],
            "training loss (train_loss, whole set)");
}

TEST(ReportModel, GridsOfDifferentMetricsAreNotMixed) {
  Sweep other = small_grid("other", {100, 200, 300, 400});
  other.metric = "val_loss";
  const Json model = model_of({{}, {small_grid("one", {1, 2, 3, 4}), other}, {}});
  EXPECT_EQ(figure_of(model, "heatmap-one")["colours"].dump(), "[1,4]");
  EXPECT_EQ(figure_of(model, "heatmap-other")["colours"].dump(), "[100,400]");
}

TEST(ReportModel, SaysWhatWasRunAndWhatIsBest) {
  Collection collection = {
      {trained_run("worse", 1, 0.5), trained_run("better", 1, 0.25), diverged_run("lost", 1)}, {}, {}};
  collection.sweeps.push_back(small_grid("g", {4, 2, 3, 5}));
  const Json model = model_of(collection);
  EXPECT_EQ(
      model["summary"][0],
      "mlp-heavy-tail: 3 runs of 3 configurations, seed 1; 1 diverged. Smallest train_loss: better with 0.25 over 1 "
      "seed; next worse with 0.5, 2 times as much. One seed does not settle it.");
  EXPECT_EQ(model["summary"][1], "Sweep g (grid): 4 trials; smallest train_loss 2, trial 1 at x = 10, y = 1.");
  EXPECT_EQ(model["tables"][0]["best"], "better");
  EXPECT_EQ(model["tables"][0]["rows"][0][0]["text"], "better");
  EXPECT_EQ(model["tables"][0]["rows"][2][1].dump(), R"({"text":"–"})");
}

TEST(ReportModel, SaysWhetherTheSeedsSettleIt) {
  const auto said = [](double worst_of_first) {
    return model_of({{trained_run("a", 1, 0.1), trained_run("a", 2, worst_of_first), trained_run("b", 1, 0.5),
                      trained_run("b", 2, 0.7)},
                     {},
                     {}})["summary"][0]
        .get<std::string>();
  };
  EXPECT_NE(said(0.3).find("over 2 seeds; next b with"), std::string::npos) << said(0.3);
  EXPECT_NE(said(0.3).find("3 times as much. Every seed of the first is below every seed of the second."),
            std::string::npos)
      << said(0.3);
  EXPECT_NE(said(0.6).find("Their seeds overlap: they do not settle it."), std::string::npos) << said(0.6);
}

TEST(ReportModel, SeedsAndPresetsShareACommand) {
  std::vector<report::Run> runs;
  for (const char* const name : {"a", "b"})
    for (const std::uint64_t seed : {1, 2, 3}) {
      runs.push_back(trained_run(name, seed, 0.1 * static_cast<double>(seed)));
      runs.back().command =
          std::string("spectralclip run ") + name + " --set train.steps=9 --seed " + std::to_string(seed);
    }
  runs.push_back(trained_run("c", 9, 1));
  runs.back().command = "spectralclip run c --seed 9";
  runs.push_back(trained_run("d", 1, 1));
  runs.back().command = "another program";
  EXPECT_EQ(
      figure_of(model_of({runs, {}, {}}), "training-loss-steps")["commands"].dump(),
      R"(["spectralclip run a b --set train.steps=9 --seeds 1..3","spectralclip run c --seed 9","another program"])");
}

TEST(ReportModel, SettingsThatDifferComeFirst) {
  std::vector<report::Run> runs = {finished_run("a", 1, 1), finished_run("b", 1, 1)};
  runs[1].settings["clip.kind"] = "none";
  const Json settings = model_of({runs, {}, {}})["settings"][0];
  EXPECT_EQ(settings["differing"].dump(), R"([["clip.kind","spectral","none"]])");
  EXPECT_EQ(settings["same"].dump(), R"([["optimizer.kind","sgdm"],["optimizer.lr","0.01"]])");
}

TEST(ReportModel, LayersGiveThresholdsSharesAndSpectra) {
  report::Run clipped = finished_run("a", 1, 1), free = finished_run("free", 1, 1);
  clipped.layers = {{"W", {{1, 2}, {3, 4}, {kNothing, 2}, 200, 50}}};
  clipped.spectra = {{"W", {{10, {3, 1}, {2, 1}}, {20, {4, 1}, {2, 1}}}}};
  free.layers = {{"W", {{1}, {3}, {kNothing}, 200, 0}}};
  const Json model = model_of({{free, clipped}, {}, {}});
  const Json thresholds = figure_of(model, "thresholds");
  EXPECT_EQ(thresholds["runs"][0]["label"], "a");  // the one that has a threshold is shown first
  EXPECT_EQ(thresholds["runs"][0]["layers"][0]["tau"].dump(), "[null,2]");
  const Json bars = figure_of(model, "clip-share")["bars"];
  ASSERT_EQ(bars.size(), 1u);
  EXPECT_EQ(bars[0]["mean"].dump(), "[0.25]");
  EXPECT_EQ(figure_of(model, "spectra")["runs"][0]["layers"][0]["stops"].size(), 2u);
}

TEST(ReportModel, GridsGiveHeatMapsAndTheirDifference) {
  const Json model =
      model_of({{}, {small_grid("norm", {10, 1, kNothing, 2}), small_grid("spectral", {1, 10, 5, 1})}, {}});
  EXPECT_EQ(ids_of(model),
            std::vector<std::string>({"heatmap-norm", "heatmap-spectral", "gap-norm-spectral", "trials-norm",
                                      "parameters-norm", "trials-spectral", "parameters-spectral"}));
  EXPECT_EQ(figure_of(model, "heatmap-norm")["state"].dump(), R"([["finished","finished"],["lost","finished"]])");
  const std::string caption = figure_of(model, "gap-norm-spectral")["caption"];
  EXPECT_NE(caption.find("spectral is better in 3 of 4 cells (75 %), norm in 1 of 4 cells (25 %)"), std::string::npos)
      << caption;
  EXPECT_EQ(figure_of(model, "trials-norm")["trials"]["best"].dump(), "[10,1,1,1]");
}

report::Run rates_run() {
  report::Run run = finished_run("rates", 1, 0);
  run.task = "rates";
  for (const double K : {100.0, 1000.0, 10000.0}) {
    RatePoint point{"spectral", "2", K, 8 / std::sqrt(K), 2 / std::sqrt(K), 1 / std::sqrt(K), 3 / std::sqrt(K)};
    run.rates.push_back(point);
    point.method = "none";
    point.bound = kNothing;
    run.rates.push_back(point);
  }
  return run;
}

TEST(ReportModel, RatesHaveExponentsFittedWhenTheRunGivesNone) {
  const Json figure = figure_of(model_of({{rates_run()}, {}, {}}), "rates-2");
  EXPECT_EQ(figure["title"], "Rate of convergence: Theorem 2");
  const Json rows = figure["views"][0]["table"]["rows"];
  EXPECT_NEAR(rows[0][1]["sort"], -0.5, 1e-6);
  EXPECT_NEAR(rows[0][2]["sort"], -0.5, 1e-6);  // of the bound
  EXPECT_NEAR(rows[0][3]["sort"], 0.25, 1e-6);
  EXPECT_EQ(rows[1][3]["text"], "–");  // no bound without clipping
}

TEST(ReportModel, RatesTakeTheExponentsOfTheRun) {
  report::Run run = rates_run();
  run.results = {{"spectral_exponent", -0.45},
                 {"spectral_exponent_low", -0.5},
                 {"spectral_exponent_high", -0.4},
                 {"spectral_theory", -0.4}};
  const Json rows = figure_of(model_of({{run}, {}, {}}), "rates-2")["views"][0]["table"]["rows"];
  EXPECT_EQ(rows[0][1]["text"], "-0.45 (-0.5 to -0.4)");
  EXPECT_EQ(rows[0][2]["text"], "-0.4");
}

TEST(ReportModel, TraceRegressionHasOneCurveAMethod) {
  report::Run run = finished_run("trace", 11, 0);
  run.task = "trace-regression";
  run.main_result = "EMA";
  run.results = {{"EMA", 0.5}, {"EMA_last_tenth", 0.1}, {"constant_tau_5.0", 0.0}};
  run.metrics = {{"EMA", {{1, 10}, {1, 2}, {1, 0.5}}}, {"constant_tau_5.0", {{1, 10}, {1, 2}, {0, 0}}}};
  const Json figure = figure_of(model_of({{run}, {}, {}}), "trace-bias-trace");
  EXPECT_TRUE(figure["x"]["log"] && figure["y"]["log"]);
  EXPECT_EQ(figure["views"][0]["curves"].size(), 2u);
  EXPECT_EQ(figure["table"]["rows"][0][2]["text"], "0.1");
  const std::string caption = figure["caption"];
  EXPECT_NE(caption.find("not on the logarithmic axis: constant_tau_5.0."), std::string::npos) << caption;
}

TEST(ReportModel, SameInputSameBytes) {
  const Collection collection = {{trained_run("a", 1, 0.5)}, {small_grid("g", {1, 2, 3, 4})}, {"w"}};
  EXPECT_EQ(model_of(collection).dump(), model_of(collection).dump());
}

}  // namespace
}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// A state that meets a threshold of another kind or with other settings: no threshold is lost without a word, and what
// the saved past can give is what comes out.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "clipper/saved_threshold.h"
#include "clipper/toy_model.h"
#include "constants.h"

namespace spectralclip {
namespace {

ThresholdOptions ema_of(double decay) { return {.kind = ThresholdKind::ema, .decay = decay}; }
ThresholdOptions quantile_of(std::int64_t window) {
  return {.kind = ThresholdKind::quantile, .quantile = 0.5, .window = window};
}
ThresholdOptions at_constant(double tau) { return {.kind = ThresholdKind::constant, .tau = tau}; }

// What a checkpoint holds after these values.
SavedThreshold saved_after(const ThresholdOptions& options, const std::vector<double>& values) {
  ThresholdState state = make_threshold_state(options);
  for (const double value : values) (void)observe(options, state, value);
  SavedThreshold saved{options.kind, options.decay, state.observed, state.average, {}};
  if (options.kind == ThresholdKind::quantile) {
    const std::size_t count = std::min(values.size(), state.window.size());
    saved.values.assign(values.end() - static_cast<std::ptrdiff_t>(count), values.end());
  }
  return saved;
}

std::vector<double> some_values(std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(1 + std::abs(std::sin(3.7 * static_cast<double>(i))));
  return values;
}

// 1 - decay^n loses digits when it is small: eps / (1 - decay) relative, in both directions.
double rounding(double a, double b) {
  return 64 * std::numeric_limits<double>::epsilon() * (1 + 1 / (1 - std::max(a, b)));
}

TEST(CarryOver, AnAverageIsTheSameUnderAnotherDecay) {
  for (const double from : {0.1, 0.9, 0.999, 0.999999}) {
    for (const double to : {0.2, 0.95, 0.99999}) {
      for (const std::int64_t count : {1, 2, 50, 5000}) {
        const SavedThreshold saved = saved_after(ema_of(from), some_values(count));
        const double before = threshold(ema_of(from), restored(saved, ema_of(from), nullptr));
        const double after = threshold(ema_of(to), restored(saved, ema_of(to), nullptr));
        EXPECT_NEAR(after, before, rounding(from, to) * before) << from << " -> " << to << " after " << count;
      }
    }
  }
}

TEST(CarryOver, AnAverageStartsFromTheWindow) {
  for (const std::int64_t count : {1, 3, 8, 200}) {
    const auto values = some_values(count);
    const SavedThreshold saved = saved_after(quantile_of(8), values);
    const SavedThreshold latest =
        saved_after(ema_of(0.8), saved.values);  // the oracle: an EMA that saw what is remembered
    const double expected = threshold(ema_of(0.8), restored(latest, ema_of(0.8), nullptr));
    const ThresholdState state = restored(saved, ema_of(0.8), nullptr);
    EXPECT_EQ(state.observed, count) << "its warm-up is behind it";
    EXPECT_NEAR(threshold(ema_of(0.8), state), expected, rounding(0.8, 0.8) * expected);
  }
}

TEST(CarryOver, AWindowStartsWithTheAverageAndFillsUp) {
  const SavedThreshold saved = saved_after(ema_of(0.9), some_values(30));
  const double average = threshold(ema_of(0.9), restored(saved, ema_of(0.9), nullptr));
  ThresholdState state = restored(saved, quantile_of(5), nullptr);
  EXPECT_EQ(state.observed, 1);
  EXPECT_EQ(threshold(quantile_of(5), state), average);
  for (const double value : {7.0, 8.0, 9.0, 10.0, 11.0}) (void)observe(quantile_of(5), state, value);
  EXPECT_EQ(threshold(quantile_of(5), state), 9.0) << "the average has left the window";
}

TEST(CarryOver, ThereIsANoteExactlyWhenSomethingChanged) {
  const std::vector<ThresholdOptions> all = {ema_of(0.9),    ema_of(0.95),   quantile_of(4),
                                             quantile_of(9), at_constant(1), at_constant(2)};
  for (const ThresholdOptions& from : all) {
    const SavedThreshold saved = saved_after(from, some_values(6));
    for (const ThresholdOptions& to : all) {
      std::string note;
      const ThresholdState state = restored(saved, to, &note);
      const bool same = from.kind == to.kind && (to.kind != ThresholdKind::ema || from.decay == to.decay);
      EXPECT_EQ(note.empty(), same) << note;
      if (from.kind != ThresholdKind::constant) {
        EXPECT_TRUE(std::isfinite(threshold(to, state))) << to_string(from) << " -> " << to_string(to);
      }
    }
    std::string note;
    (void)restored(saved_after(from, {}), ema_of(0.5), &note);
    EXPECT_EQ(note, "") << "nothing was seen, nothing is lost";
  }
}

TEST(CarryOver, AClipperKeepsItsThresholdsAndNamesItsLayers) {
  using testing::ToyModel;
  ToyModel model = testing::make_mixed_model();
  ClipperOptions options = testing::mixed_options();
  Clipper first(model.parameters(), options);
  for (int step = 0; step < 4; ++step) {
    model.fill(step);
    (void)first.step(model.gradients(), serial_executor());
  }
  options.threshold = quantile_of(50);
  Clipper second(model.parameters(), options);
  second.deserialize(first.serialize());
  ASSERT_EQ(second.load_notes().size(), 1U) << "one line for all layers";
  const std::string note = second.load_notes()[0];
  for (const char* part : {"ema(0.9) -> quantile(0.5, window 50", "attn.weight", "more)"})
    EXPECT_NE(note.find(part), std::string::npos) << note;
  EXPECT_EQ(note.find("wte.weight,"), std::string::npos) << "a skipped layer has no threshold: " << note;
  model.fill(4);
  Clipper same(model.parameters(), testing::mixed_options());
  same.deserialize(first.serialize());
  EXPECT_TRUE(same.load_notes().empty());
  ToyModel copy = model;
  const StepReport expected = same.step(model.gradients(), serial_executor());
  const StepReport report = second.step(copy.gradients(), serial_executor());
  for (std::size_t i = 0; i < report.layers.size(); ++i)
    EXPECT_EQ(report.layers[i].clip.tau, expected.layers[i].clip.tau) << report.layers[i].name;
  second.deserialize(second.serialize());
  EXPECT_TRUE(second.load_notes().empty()) << "notes are those of the latest load";
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// Which threshold options are refused, with which words, and how accepted ones are named in reports.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "constants.h"
#include "spectralclip/error.h"
#include "spectralclip/threshold.h"

namespace spectralclip {
namespace {

template <class Change>
std::string refusal(Change change) {
  ThresholdOptions options;
  change(options);
  try {
    validate(options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

#define EXPECT_REFUSED(assignment, text) EXPECT_EQ(refusal([](ThresholdOptions& o) { assignment; }), text)
#define EXPECT_ACCEPTED(assignment) EXPECT_EQ(refusal([](ThresholdOptions& o) { assignment; }), "accepted")

TEST(ThresholdOptionsRange, MessagesNameValueAndRange) {
  EXPECT_REFUSED(o.tau = -1, "tau = -1 must lie in [0, infinity]");
  EXPECT_REFUSED(o.tau = kNaN, "tau = nan must lie in [0, infinity]");
  EXPECT_REFUSED(o.decay = 1, "decay = 1 must lie in (0, 1)");
  EXPECT_REFUSED(o.decay = 0, "decay = 0 must lie in (0, 1)");
  EXPECT_REFUSED(o.decay = kNaN, "decay = nan must lie in (0, 1)");
  EXPECT_REFUSED(o.quantile = 1.5, "quantile = 1.5 must lie in [0, 1]");
  EXPECT_REFUSED(o.quantile = kNaN, "quantile = nan must lie in [0, 1]");
  EXPECT_REFUSED(o.window = 0, "window = 0 must lie in [1, 1048576]");
  EXPECT_REFUSED(o.window = 1 << 21, "window = 2097152 must lie in [1, 1048576]");
  EXPECT_REFUSED(o.slack = 0, "slack = 0 must be finite and > 0");
  EXPECT_REFUSED(o.slack = kInfinity, "slack = inf must be finite and > 0");
  EXPECT_REFUSED(o.slack = kNaN, "slack = nan must be finite and > 0");
  EXPECT_REFUSED(o.floor = -2, "floor = -2 must be finite and >= 0");
  EXPECT_REFUSED(o.floor = kInfinity, "floor = inf must be finite and >= 0");
  EXPECT_REFUSED(o.floor = kNaN, "floor = nan must be finite and >= 0");
  EXPECT_REFUSED((o.floor = 3, o.cap = 2), "cap = 2 must lie in [floor, infinity], floor = 3");
  EXPECT_REFUSED(o.cap = kNaN, "cap = nan must lie in [floor, infinity], floor = 0");
  EXPECT_REFUSED(o.warmup_steps = -1, "warmup_steps = -1 must be >= 0");
  EXPECT_REFUSED(o.kind = static_cast<ThresholdKind>(3),
                 "threshold kind = 3 is none of constant (0), ema (1), quantile (2)");
  EXPECT_REFUSED(o.first_step = static_cast<FirstStep>(2), "first_step = 2 is neither unclipped (0) nor zero (1)");
  EXPECT_REFUSED(o.interpolation = static_cast<Interpolation>(9),
                 "interpolation = 9 is neither lower (0) nor linear (1)");
}

TEST(ThresholdOptionsRange, EdgesAreAccepted) {
  EXPECT_ACCEPTED(static_cast<void>(o));
  EXPECT_ACCEPTED(o.tau = 0);
  EXPECT_ACCEPTED(o.tau = kInfinity);
  EXPECT_ACCEPTED(o.quantile = 0);
  EXPECT_ACCEPTED(o.quantile = 1);
  EXPECT_ACCEPTED(o.window = 1);
  EXPECT_ACCEPTED((o.floor = 2, o.cap = 2));
}

TEST(ThresholdOptionsRange, AStateIsNotMadeOfBadOptions) {
  ThresholdOptions options;
  options.decay = 2;
  EXPECT_THROW(static_cast<void>(make_threshold_state(options)), InvalidArgument);
}

TEST(ThresholdText, NamesThePolicyAndWhatDiffers) {
  ThresholdOptions options;
  EXPECT_EQ(to_string(options), "ema(0.9)");
  options.decay = 0.9999999;
  EXPECT_EQ(to_string(options), "ema(0.9999999)");
  options.kind = ThresholdKind::constant;
  options.first_step = FirstStep::zero;
  EXPECT_EQ(to_string(options), "constant(1)");
  options.kind = ThresholdKind::quantile;
  EXPECT_EQ(to_string(options), "quantile(0.85, window 100, lower, first step zero)");
  options = {};
  options.kind = ThresholdKind::quantile;
  options.interpolation = Interpolation::linear;
  EXPECT_EQ(to_string(options), "quantile(0.85, window 100, linear)");
  options.observe_zeros = true;
  options.slack = 2;
  options.floor = 0.5;
  options.cap = 8;
  options.warmup_steps = 3;
  EXPECT_EQ(to_string(options),
            "quantile(0.85, window 100, linear, zeros observed, slack 2, floor 0.5, cap 8, warm-up 3)");
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The clipper as a whole: which layer gets what, what a step reports, what must never be touched.
#include "spectralclip/clipper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "clipper/toy_model.h"
#include "constants.h"
#include "spectralclip/clip.h"
#include "spectralclip/error.h"

namespace spectralclip {
namespace {

using testing::kPadding;
using testing::make_mixed_model;
using testing::mixed_options;
using testing::ToyModel;

ThresholdOptions constant(double tau) {
  ThresholdOptions options;
  options.kind = ThresholdKind::constant;
  options.tau = tau;
  return options;
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// ‖.‖_F of what a tensor holds, padding excluded, straight from the bytes.
double norm_of(ToyModel::Tensor& tensor) {
  return frobenius_norm({tensor.bytes.data(), tensor.type, tensor.rows(), tensor.row_length, tensor.row_stride});
}

TEST(Clipper, LayersFollowTheRules) {
  const ToyModel model = make_mixed_model();
  const Clipper clipper(model.parameters(), mixed_options());
  std::map<std::string, LayerReport> layers;
  for (const LayerReport& layer : clipper.layers()) layers[layer.name] = layer;
  ASSERT_EQ(layers.size(), 12U);
  EXPECT_EQ(layers.at("attn.weight").treatment, Treatment::spectral);
  EXPECT_EQ(layers.at("attn.weight").rows, 72);
  EXPECT_EQ(layers.at("conv.weight").cols, 27);
  EXPECT_EQ(layers.at("experts[2]").rows, 10);
  EXPECT_EQ(layers.at("experts[2]").rule, "experts");
  EXPECT_EQ(layers.at("norm.bias").treatment, Treatment::norm);
  EXPECT_EQ(layers.at("wte.weight").treatment, Treatment::skip);
}

TEST(Clipper, WrapperPrefixesChangeNeitherNamesNorBits) {
  ToyModel plain;
  ToyModel wrapped;
  plain.add("fc.weight", {60, 70});
  wrapped.add("module._orig_mod.fc.weight", {60, 70});
  Clipper a(plain.parameters());
  Clipper b(wrapped.parameters());
  for (int step = 0; step < 4; ++step) {
    plain.fill(step);
    wrapped.fill(step);
    (void)a.step(plain.gradients(), serial_executor());
    (void)b.step(wrapped.gradients(), serial_executor());
  }
  EXPECT_EQ(b.layers()[0].name, "fc.weight");
  EXPECT_GT(a.layers()[0].steps_clipped, 0);
  EXPECT_EQ(plain.all_bytes(), wrapped.all_bytes());
  EXPECT_EQ(a.serialize(), b.serialize());
}

TEST(Clipper, RefusesBadConstruction) {
  const auto text = message_of([] { Clipper({{"a", {2, 2}}, {"module.a", {2, 2}}}); });
  EXPECT_NE(text.find("\"a\""), std::string::npos) << text;
  const auto batch = message_of([] { Clipper({{"experts", {2, 3, 3}}, {"experts[1]", {2, 2}}}, mixed_options()); });
  EXPECT_NE(batch.find("experts[1]"), std::string::npos) << batch;
  EXPECT_THROW(Clipper({{"empty", {0, 3}}}), InvalidArgument);
  ClipperOptions options;
  options.threshold.decay = 2;
  EXPECT_THROW(Clipper({{"a", {2, 2}}}, options), InvalidArgument);
  options = {};
  options.clip.rank = 0;
  EXPECT_THROW(Clipper({{"a", {2, 2}}}, options), InvalidArgument);
  options = {};
  options.on_nonfinite = static_cast<OnNonFinite>(7);
  EXPECT_THROW(Clipper({{"a", {2, 2}}}, options), InvalidArgument);
}

TEST(Clipper, RefusesBadGradientsBeforeTouchingAny) {
  ToyModel model = make_mixed_model();
  ClipperOptions options = mixed_options();
  options.threshold = constant(0.5);
  Clipper clipper(model.parameters(), options);
  model.fill(2);
  const auto before = model.all_bytes();
  const auto state = clipper.serialize();
  auto gradients = model.gradients();
  gradients.pop_back();
  const auto count = message_of([&] { (void)clipper.step(gradients, serial_executor()); });
  EXPECT_NE(count.find("9 gradients"), std::string::npos) << count;
  EXPECT_NE(count.find("10 parameters"), std::string::npos) << count;
  gradients = model.gradients();
  gradients[4].row_stride = 51;
  const auto stride = message_of([&] { (void)clipper.step(gradients, serial_executor()); });
  EXPECT_NE(stride.find("\"double.weight\": row_stride = 51 is below its 52"), std::string::npos) << stride;
  for (const std::int64_t absurd : {std::int64_t{-52}, std::numeric_limits<std::int64_t>::max() / 4}) {
    gradients[4].row_stride = absurd;
    EXPECT_THROW((void)clipper.step(gradients, serial_executor()), InvalidArgument);
  }
  gradients = model.gradients();
  gradients[9].type = static_cast<ScalarType>(9);
  EXPECT_THROW((void)clipper.step(gradients, serial_executor()), InvalidArgument);
  EXPECT_EQ(model.all_bytes(), before);
  EXPECT_EQ(clipper.serialize(), state);
  EXPECT_EQ(clipper.steps(), 0);
}

// A constant tau between the noise and the spikes: each treatment does its own thing, and padding between rows
// survives.
TEST(Clipper, EachTreatmentDoesWhatItSays) {
  ToyModel model = make_mixed_model();
  ClipperOptions options = mixed_options();
  constexpr double kTau = 2.5;
  options.threshold = constant(kTau);
  Clipper clipper(model.parameters(), options);
  model.fill(2);
  ToyModel before = model;
  const StepReport step = clipper.step(model.gradients(), serial_executor());
  double norm_before = 0;
  double norm_after = 0;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    norm_before += std::pow(norm_of(before.tensors[i]), 2);
    norm_after += std::pow(norm_of(model.tensors[i]), 2);
  }
  const double rounding = 0x1p-8 * std::sqrt(norm_before);  // half a unit of bfloat16, the coarsest storage, relative
  EXPECT_NEAR(step.total_norm, std::sqrt(norm_before), 1e3 * std::numeric_limits<float>::epsilon() * step.total_norm);
  EXPECT_NEAR(step.norm_after, std::sqrt(norm_after), rounding);
  EXPECT_LT(step.norm_after, step.total_norm);
  EXPECT_EQ(step.step, 1);
  for (const LayerReport& layer : step.layers) {
    EXPECT_TRUE(layer.has_gradient);
    EXPECT_EQ(layer.steps, 1);
    EXPECT_EQ(layer.clip.status, ClipStatus::ok) << layer.name;
    const bool clips = layer.treatment != Treatment::skip && layer.clip.sigma_max > kTau;
    EXPECT_EQ(layer.clip.clipped > 0, clips) << layer.name;
  }
  for (std::size_t i = 0; i < testing::kSearched; ++i) {
    EXPECT_EQ(step.layers[i].clip.method, Method::tracked) << step.layers[i].name;
    EXPECT_GT(step.layers[i].clip.columns, 0) << step.layers[i].name;
  }
  EXPECT_EQ(step.layers[testing::kSearched].clip.method, Method::gram) << step.layers[testing::kSearched].name;
  EXPECT_EQ(model.tensors[8].bytes, before.tensors[8].bytes) << "wte is skipped";
  const double epsilon = std::numeric_limits<float>::epsilon();
  EXPECT_NEAR(norm_of(model.tensors[7]), kTau, 37 * epsilon * kTau) << "the bias is scaled to tau";
  const auto& padded = model.tensors[1];
  for (std::int64_t row = 0; row < padded.rows(); ++row)
    for (std::int64_t byte = padded.row_length * 4; byte < padded.row_stride * 4; ++byte)
      ASSERT_EQ(padded.bytes[static_cast<std::size_t>(row * padded.row_stride * 4 + byte)], kPadding);
}

TEST(Clipper, ThresholdsLearnFromUnclippedValues) {
  ToyModel model;
  model.add("weight", {64, 58});
  model.add("bias", {11}, ScalarType::float32, 0);
  Clipper clipper(model.parameters());
  ThresholdState expected[2];
  const ThresholdOptions ema;
  for (int step = 0; step < 6; ++step) {
    model.fill(step);
    const StepReport report = clipper.step(model.gradients(), serial_executor());
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(report.layers[i].clip.tau, threshold(ema, expected[i])) << step;
      const ClipReport& clip = report.layers[i].clip;
      (void)observe(ema, expected[i], i == 0 ? clip.sigma_max : clip.norm_before);
      EXPECT_EQ(clip.clipped > 0, step > 0 && (i == 0 ? clip.sigma_max : clip.norm_before) > clip.tau);
    }
  }
  EXPECT_GE(clipper.layers()[0].steps_clipped, 2) << "the spikes of steps 2 and 5";
}

TEST(Clipper, ALayerWithoutGradientDoesNotAdvance) {
  ToyModel model = make_mixed_model();
  Clipper with(model.parameters(), mixed_options());
  Clipper without(model.parameters(), mixed_options());
  model.fill(0);
  (void)with.step(model.gradients(), serial_executor());
  model.fill(0);
  (void)without.step(model.gradients(), serial_executor());
  std::vector<Gradient> none(model.tensors.size());
  const StepReport report = without.step(none, serial_executor());
  EXPECT_EQ(report.total_norm, 0);
  for (const LayerReport& layer : report.layers) {
    EXPECT_FALSE(layer.has_gradient);
    EXPECT_EQ(layer.steps, 1);
  }
  model.fill(1);
  (void)with.step(model.gradients(), serial_executor());
  const auto expected = model.all_bytes();
  model.fill(1);
  (void)without.step(model.gradients(), serial_executor());
  EXPECT_EQ(model.all_bytes(), expected);
  EXPECT_EQ(without.steps(), 3);
}

// One NaN or Inf: that layer's bytes and state stay, it is named, the others are clipped as if alone.
TEST(Clipper, ANonFiniteLayerIsLeftAloneAndForgotten) {
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()}) {
    ToyModel model = make_mixed_model();
    ToyModel reference = make_mixed_model();
    Clipper clipper(model.parameters(), mixed_options());
    Clipper unharmed(model.parameters(), mixed_options());
    for (int step = 0; step < 6; ++step) {
      model.fill(step);
      reference.fill(step);
      auto expected = reference.gradients();
      if (step == 2) {
        for (const std::size_t tensor : {std::size_t{0}, std::size_t{7}, std::size_t{8}}) {
          model.tensors[tensor].set(model.tensors[tensor].rows() - 1, 5, bad);
          expected[tensor].data = nullptr;
        }
      }
      const ToyModel before = model;
      const StepReport report = clipper.step(model.gradients(), serial_executor());
      (void)unharmed.step(expected, serial_executor());
      EXPECT_EQ(report.layers_not_finite, step == 2 ? 3 : 0);
      EXPECT_TRUE(std::isfinite(report.total_norm) && std::isfinite(report.norm_after));
      if (step == 2) {
        EXPECT_EQ(report.layers[0].clip.status, ClipStatus::not_finite);
        EXPECT_EQ(report.layers[0].steps, 2);
        EXPECT_EQ(model.tensors[0].bytes, before.tensors[0].bytes);
        EXPECT_EQ(model.tensors[7].bytes, before.tensors[7].bytes);
        EXPECT_EQ(model.tensors[1].bytes, reference.tensors[1].bytes);
      } else {
        EXPECT_EQ(model.all_bytes(), reference.all_bytes()) << step;
      }
      EXPECT_EQ(clipper.serialize(), unharmed.serialize()) << step;
    }
  }
}

TEST(Clipper, LeaveAllTouchesNothing) {
  ToyModel model = make_mixed_model();
  ClipperOptions options = mixed_options();
  options.on_nonfinite = OnNonFinite::leave_all;
  options.threshold = constant(0.5);
  Clipper clipper(model.parameters(), options);
  model.fill(2);
  model.tensors[4].set(3, 3, kNaN);
  const auto before = model.all_bytes();
  const StepReport report = clipper.step(model.gradients(), serial_executor());
  EXPECT_TRUE(report.left_all);
  EXPECT_EQ(report.layers_not_finite, 1);
  EXPECT_EQ(report.layers_clipped, 0);
  EXPECT_EQ(report.total_norm, report.norm_after);
  EXPECT_GT(report.total_norm, 0);
  EXPECT_EQ(model.all_bytes(), before);
  for (const LayerReport& layer : report.layers) EXPECT_EQ(layer.steps, 0);
  model.fill(2);
  const StepReport clean = clipper.step(model.gradients(), serial_executor());
  EXPECT_FALSE(clean.left_all);
  EXPECT_GT(clean.layers_clipped, 0);
}

TEST(Clipper, ObserveOnlyWritesNothingAndLearnsTheSame) {
  ToyModel model = make_mixed_model();
  ToyModel clipped = make_mixed_model();
  ClipperOptions options = mixed_options();
  Clipper clipper(model.parameters(), options);
  options.observe_only = true;
  Clipper observer(model.parameters(), options);
  std::int64_t would_clip = 0;
  for (int step = 0; step < 6; ++step) {
    model.fill(step);
    clipped.fill(step);
    const auto before = model.all_bytes();
    const StepReport seen = observer.step(model.gradients(), serial_executor());
    const StepReport done = clipper.step(clipped.gradients(), serial_executor());
    EXPECT_EQ(model.all_bytes(), before);
    EXPECT_EQ(seen.layers_clipped, done.layers_clipped);
    for (std::size_t i = 0; i < seen.layers.size(); ++i) {
      EXPECT_EQ(seen.layers[i].clip.tau, done.layers[i].clip.tau);
      EXPECT_EQ(seen.layers[i].clip.clipped, done.layers[i].clip.clipped) << seen.layers[i].name;
    }
    would_clip += seen.layers_clipped;
  }
  EXPECT_GT(would_clip, 0);
}

// A budget that is too small for a slow decay: the step says so, counts as a step, and the threshold learns from it.
TEST(Clipper, AStepThatIsNotSureSaysSoAndCounts) {
  ToyModel model;
  model.add("fc.weight", {160, 120});
  model.add("other.weight", {72, 61});
  ClipperOptions options;
  options.clip.max_passes = 1;
  options.threshold = constant(0.02);  // far inside the noise: dozens of values are above
  Clipper clipper(model.parameters(), options);
  for (int step = 0; step < 3; ++step) {
    model.fill(0);
    const auto before = model.all_bytes();
    const StepReport report = clipper.step(model.gradients(), serial_executor());
    const ClipStatus status = report.layers[0].clip.status;
    EXPECT_TRUE(status == ClipStatus::not_converged || status == ClipStatus::rank_exhausted) << to_string(status);
    EXPECT_EQ(report.layers_not_converged + report.layers_rank_exhausted, 2);
    EXPECT_EQ(report.layers[0].steps, step + 1);
    EXPECT_GT(report.layers[0].clip.clipped, 0) << "what was found is lowered";
    EXPECT_GT(report.layers[0].clip.sigma_bound, 0.02);
    EXPECT_NE(model.all_bytes(), before);
  }
}

// The same with `go_exact` ends in gram, and is sure.
TEST(Clipper, GoExactFinishesWhatASearchCouldNot) {
  ToyModel model;
  model.add("fc.weight", {160, 120});
  ClipperOptions options;
  options.clip.max_passes = 1;
  options.clip.exhausted = Exhausted::go_exact;
  options.threshold = constant(0.02);
  Clipper clipper(model.parameters(), options);
  model.fill(0);
  const StepReport report = clipper.step(model.gradients(), serial_executor());
  EXPECT_EQ(report.layers[0].clip.status, ClipStatus::ok);
  EXPECT_EQ(report.layers[0].clip.method, Method::gram);
  EXPECT_EQ(report.layers[0].clip.clipped, 120);
  EXPECT_EQ(report.layers_not_converged + report.layers_rank_exhausted, 0);
}

// Finite entries whose norm is not: left alone, counted, and neither a step nor something to learn from.
TEST(Clipper, ALayerOutOfRangeIsLeftAloneAndForgotten) {
  ToyModel model;
  model.add("weight", {72, 61}, ScalarType::float64);
  model.add("small.weight", {6, 5}, ScalarType::float64);
  model.add("bias", {40}, ScalarType::float64, 0);
  model.add("wte.weight", {50, 8}, ScalarType::float64);
  Clipper clipper(model.parameters());
  model.fill(0);
  (void)clipper.step(model.gradients(), serial_executor());
  const auto state = clipper.layers();
  std::vector<std::int64_t> steps;
  for (const LayerReport& layer : state) steps.push_back(layer.steps);
  for (auto& tensor : model.tensors) {
    for (std::int64_t i = 0; i < tensor.rows(); ++i) {
      for (std::int64_t j = 0; j < tensor.row_length; ++j) tensor.set(i, j, (i + j) % 3 == 0 ? -1.5e308 : 1.5e308);
    }
  }
  const auto before = model.all_bytes();
  const StepReport report = clipper.step(model.gradients(), serial_executor());
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    EXPECT_EQ(report.layers[i].clip.status, ClipStatus::out_of_range) << report.layers[i].name;
    EXPECT_EQ(report.layers[i].steps, steps[i]) << report.layers[i].name;
  }
  EXPECT_EQ(report.layers_out_of_range, 4);
  EXPECT_EQ(report.layers_not_finite, 0);
  EXPECT_EQ(report.layers_clipped, 0);
  EXPECT_EQ(model.all_bytes(), before);
  model.fill(1);
  for (const LayerReport& layer : clipper.step(model.gradients(), serial_executor()).layers) {
    EXPECT_EQ(layer.clip.status, ClipStatus::ok) << layer.name;
    EXPECT_TRUE(layer.treatment == Treatment::skip || std::isfinite(layer.clip.tau))
        << layer.name << " learnt " << layer.clip.tau;
  }
}

TEST(Clipper, AFixedRankIsClampedToTheLayer) {
  ToyModel model = make_mixed_model();
  ClipperOptions options = mixed_options();
  options.clip.rank = 16;  // more than several layers have
  options.threshold = constant(0.5);
  Clipper clipper(model.parameters(), options);
  model.fill(2);
  const StepReport report = clipper.step(model.gradients(), serial_executor());
  EXPECT_EQ(report.layers_not_finite, 0);
  EXPECT_GT(report.layers_clipped, 0);
}

}  // namespace
}  // namespace spectralclip

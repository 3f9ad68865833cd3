// SPDX-License-Identifier: Apache-2.0
// Steps of a clipper that are not plain: left ones, empty ones, gradients that come and go, huge ones; what autograd is
// told; and the corners of the stateless calls.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "constants.h"
#include "spectralclip/torch.h"

namespace spectralclip::torch {
namespace {

SpectralClipperOptions constant(double tau, Backend backend, Method method = Method::exact) {
  SpectralClipperOptions options;
  options.threshold.kind = ThresholdKind::constant;
  options.threshold.tau = tau;
  options.clip.method = method;
  options.backend = backend;
  return options;
}

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  ::torch::manual_seed(seed);
  return at::randn(sizes, type);
}

class StepTest : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Backends, StepTest, ::testing::Values(Backend::core, Backend::aten),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

class ResumeTest : public ::testing::TestWithParam<std::tuple<Backend, Method, at::ScalarType>> {
 protected:
  [[nodiscard]] at::ScalarType type() const { return std::get<2>(GetParam()); }
  [[nodiscard]] SpectralClipper make() const {
    SpectralClipperOptions options;
    std::tie(options.backend, options.clip.method, std::ignore) = GetParam();
    options.clip.rank = 3;
    options.on_nonfinite = OnNonFinite::leave_all;
    const at::Tensor zero = at::zeros({20, 12}, type());
    return SpectralClipper(NamedTensors{{"a", zero}, {"b", zero.clone()}}, options);
  }
  // Step 2 has a NaN in b, so that it is left. Returns both gradients after the step.
  at::Tensor step(SpectralClipper& clipper, std::uint64_t number) const {
    at::Tensor G = drawn({2, 20, 12}, number, type()) * (number % 2 == 0 ? 1 : 4);
    if (number == 2) G[1][3][3] = kNaN;
    clipper.step({G[0], G[1]});
    return G;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ResumeTest,
                         ::testing::Combine(::testing::Values(Backend::core, Backend::aten),
                                            ::testing::Values(Method::tracked, Method::sketched),
                                            ::testing::Values(at::kFloat, at::kDouble)),
                         [](const auto& tested) {
                           return std::string(to_string(std::get<0>(tested.param))) + "_" +
                                  to_string(std::get<1>(tested.param)) + "_" + at::toString(std::get<2>(tested.param));
                         });

// The step that is left counts for nobody, nor for the random columns of the layer that was finite.
TEST_P(ResumeTest, ContinuesBitForBitAfterAStepThatWasLeft) {
  SpectralClipper first = make(), second = make();
  for (std::uint64_t i = 0; i < 5; ++i) {
    const at::Tensor G = step(first, i);
    if (i != 2) continue;
    EXPECT_TRUE(at::equal(G[0], drawn({2, 20, 12}, 2, type())[0])) << "nothing was written";
  }
  EXPECT_EQ(first.report().layers[0].steps, 4);
  second.deserialize(first.serialize());
  bool clipped = false;
  for (std::uint64_t i = 5; i < 9; ++i) {
    EXPECT_TRUE(at::equal(step(first, i), step(second, i))) << i;
    clipped |= first.report().layers_clipped > 0;
  }
  EXPECT_TRUE(clipped);
}

// What was known of a layer before a step that was left is what is known after it.
TEST_P(ResumeTest, AStepThatWasLeftLeavesNoTrace) {
  SpectralClipper with = make(), without = make();
  for (const std::uint64_t i : {0, 1, 2, 3, 4}) {
    const at::Tensor G = step(with, i);
    if (i == 2) continue;
    EXPECT_TRUE(at::equal(step(without, i), G)) << i;
  }
}

TEST_P(StepTest, WithoutAnyGradientReportsNone) {
  SpectralClipper clipper(NamedTensors{{"w", at::zeros({4, 4})}}, constant(0.5, GetParam()));
  clipper.step({drawn({4, 4}, 1)});
  EXPECT_TRUE(clipper.report().layers[0].has_gradient);
  const at::Tensor norm = clipper.step({at::Tensor()});
  EXPECT_EQ(norm.item<double>(), 0);
  EXPECT_FALSE(clipper.report().layers[0].has_gradient);
  EXPECT_EQ(clipper.report().layers_clipped, 0);
  EXPECT_TRUE(clipper.report_values().isnan().all().item<bool>());
  EXPECT_EQ(clipper.report().layers[0].steps, 1);
  EXPECT_EQ(clipper.steps(), 2);
}

// The threshold goes on from where it was, on both sides of the gap.
TEST_P(StepTest, StatesSurviveAStepWithoutGradient) {
  SpectralClipperOptions options;
  options.backend = GetParam();
  const NamedTensors one = {{"w", at::zeros({9, 7})}};
  SpectralClipper gap(one, options), plain(one, options);
  for (std::uint64_t i = 0; i < 6; ++i) {
    at::Tensor a = drawn({9, 7}, i), b = a.clone();
    if (i == 3) gap.step({at::Tensor()});
    gap.step({a});
    plain.step({b});
    EXPECT_TRUE(at::equal(a, b)) << i;
    EXPECT_EQ(gap.report().layers[0].clip.tau, plain.report().layers[0].clip.tau) << i;
  }
}

// Squares that float32 cannot hold are no reason to leave a step.
TEST_P(StepTest, HugeGradientsAreFinite) {
  SpectralClipperOptions options = constant(1e29, GetParam());
  options.on_nonfinite = OnNonFinite::leave_all;
  SpectralClipper clipper(NamedTensors{{"w", at::zeros({6, 5})}}, options);
  at::Tensor G = drawn({6, 5}, 1) * 1e30;
  clipper.step({G});
  EXPECT_EQ(clipper.report().layers_clipped, 1);
  EXPECT_NEAR(at::linalg_matrix_norm(G.to(at::kDouble), 2).item<double>() / 1e29, 1, 1e-5);
}

TEST_P(StepTest, AutogradIsToldOfWritesAndOfNothingElse) {
  for (const bool strided : {true, false}) {
    at::Tensor G = strided ? drawn({6, 5}, 1) : drawn({6, 10}, 1).slice(1, 0, 10, 2);
    const auto before = G._version();
    SpectralClipper(NamedTensors{{"w", at::zeros({6, 5})}}, constant(0.5, GetParam())).step({G});
    EXPECT_GT(G._version(), before);
    if (GetParam() == Backend::aten) continue;  // there a mask decides what is written, so a write is always announced
    const auto written = G._version();
    SpectralClipper(NamedTensors{{"w", at::zeros({6, 5})}}, constant(1e9, GetParam())).step({G});
    EXPECT_EQ(G._version(), written);
  }
}

ClipGradOptions exact(Backend backend) {
  ClipGradOptions options;
  options.clip.method = Method::exact;
  options.backend = backend;
  return options;
}

TEST_P(StepTest, AGradientGivenTwiceIsClippedOnceAndCountedTwice) {
  const at::Tensor a = drawn({5, 4}, 1), b = drawn({3, 4}, 2);
  const at::Tensor once = a.clone(), twice = a.clone(), other = b.clone();
  clip_gradients({once}, 0.5, exact(GetParam()));
  const at::Tensor norm = clip_gradients({twice, other, twice}, 0.5, exact(GetParam()));
  EXPECT_TRUE(at::equal(once, twice));
  const double expected = std::sqrt(2 * a.square().sum().item<double>() + b.square().sum().item<double>());
  EXPECT_NEAR(norm.item<double>(), expected, 1e-6 * expected);
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
}

TEST_P(StepTest, ARepeatedNormSeesNaNAndCountsSparseGradients) {
  const at::Tensor a = drawn({5, 4}, 1), b = drawn({3, 4}, 2), sparse = b.to_sparse();
  const double expected = std::sqrt(2 * a.square().sum().item<double>() + b.square().sum().item<double>());
  EXPECT_NEAR(clip_gradients({sparse}, 1e9, exact(GetParam())).item<double>(), b.norm().item<double>(),
              1e-6 * expected);
  EXPECT_NEAR(clip_gradients({a, sparse, a}, 1e9, exact(GetParam())).item<double>(), expected, 1e-6 * expected);
  const at::Tensor poisoned = at::full({5, 4}, kNaN);
  EXPECT_TRUE(std::isnan(clip_gradients({a, poisoned, a}, 1e9, exact(GetParam())).item<double>()));
  EXPECT_TRUE(std::isnan(clip_gradients({poisoned, sparse, poisoned}, 1e9, exact(GetParam())).item<double>()));
}

TEST_P(StepTest, TheNormHasThePromotedType) {
  const ClipGradOptions options = exact(GetParam());
  EXPECT_EQ(clip_gradients({}, 1, options).scalar_type(), at::kFloat);
  EXPECT_EQ(clip_gradients({at::zeros({0, 5}, at::kDouble)}, 1, options).scalar_type(), at::kDouble);
  EXPECT_EQ(clip_gradients({at::zeros({0}, at::kDouble), drawn({4}, 1)}, 1, options).scalar_type(), at::kDouble);
  EXPECT_EQ(clip_gradients({drawn({4, 4}, 1, at::kBFloat16), drawn({4}, 1)}, 1, options).scalar_type(), at::kFloat);
  EXPECT_EQ(clip_gradients({drawn({4, 4}, 1, at::kBFloat16)}, 1, options).scalar_type(), at::kBFloat16);
}

// 64 x 48 standard normal: 33 values above 5. The default leaves none, whoever limits the rank is told.
TEST_P(StepTest, NothingIsLeftAboveMaxSigmaAndTheWorstStatusIsSaid) {
  ClipGradOptions options;
  options.backend = GetParam();
  at::Tensor many = at::zeros({64, 48}).requires_grad_(), few = at::zeros({5, 4}).requires_grad_();
  many.mutable_grad() = drawn({64, 48}, 1);
  few.mutable_grad() = drawn({5, 4}, 2);
  ClipStatus worst = ClipStatus::not_finite;
  (void)clip_grad_spectral_({many, few}, 5.0, options, false, &worst);
  EXPECT_EQ(worst, ClipStatus::ok);
  EXPECT_LE(at::linalg_matrix_norm(many.grad().to(at::kDouble), 2).item<double>(), 5.0 * (1 + 1e-3) * (1 + 1e-6));

  options.clip.method = Method::sketched;
  many.mutable_grad() = drawn({64, 48}, 1);
  (void)clip_grad_spectral_({many, few}, 5.0, options, false, &worst);
  EXPECT_EQ(worst, ClipStatus::rank_exhausted);
  EXPECT_GT(at::linalg_matrix_norm(many.grad(), 2).item<double>(), 5.5);
}

TEST_P(StepTest, StatusesBelongToTheGradientsThatWereGiven) {
  ClipGradOptions options{.clip = {.rank = 2}, .backend = GetParam()};
  const at::Tensor many = drawn({30, 20}, 1), sparse = drawn({3, 4}, 2).to_sparse();
  const at::Tensor poisoned = at::full({5, 4}, kNaN), quiet = drawn({6, 5}, 3) * 1e-3;
  at::Tensor statuses;
  (void)clip_gradients({at::Tensor(), quiet, many, sparse, many, poisoned}, 1, options, false, &statuses);
  const auto exhausted = static_cast<std::int64_t>(ClipStatus::rank_exhausted);
  const auto not_finite = static_cast<std::int64_t>(ClipStatus::not_finite);
  EXPECT_TRUE(at::equal(
      statuses, at::tensor({std::int64_t{0}, std::int64_t{0}, exhausted, std::int64_t{0}, exhausted, not_finite})));
  (void)clip_gradients({at::Tensor(), at::Tensor()}, 1, options, false, &statuses);
  EXPECT_TRUE(at::equal(statuses, at::zeros({2}, at::kLong)));
}

// No rows, on the device of the matrix: what the fake kernel promises.
TEST(ClipSingularValues, EmptyMatricesHaveNoReports) {
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{0, 5}, {3, 0}, {3, 4, 0}}) {
    for (const at::DeviceType device : {at::kCPU, at::kMeta}) {
      const at::Tensor report = clip_singular_values_(at::empty(sizes, at::device(device)), 0.5);
      EXPECT_EQ(report.sizes(), at::IntArrayRef({0, kReportFields}));
      EXPECT_EQ(report.device().type(), device);
      EXPECT_EQ(report.scalar_type(), at::kDouble);
    }
  }
}

}  // namespace
}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// Soft clipping of gradients and of updates, by the core and by products, against an SVD in float64.
#include "baselines/soften.h"
#include "spectralclip/error.h"
#include "spectralclip/torch/gradient_clipper.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::close;
using testing::epsilon;
using testing::leaf;
using testing::message_of;
using testing::normal;
using testing::set_gradient;

at::Tensor softened(const at::Tensor& M, double c) {
  return testing::map_singular_values(M, [c](double s) { return s / std::hypot(1.0, s / c); });
}

// (o, i, kh, kw) as o x rest.
at::Tensor softened_tensor(const at::Tensor& tensor, double c) {
  return softened(tensor.reshape({tensor.size(0), -1}), c).reshape(tensor.sizes());
}

GradientClipOptions soft_options(GradientClip kind, double c, Backend backend = Backend::automatic) {
  GradientClipOptions options;
  options.kind = kind;
  options.soft_scale = c;
  options.spectral.backend = backend;
  return options;
}

NamedTensors soft_model(at::ScalarType type) {
  NamedTensors parameters = {{"w", leaf(normal({6, 9}, 1, type))},
                             {"conv", leaf(normal({4, 3, 2, 2}, 2, type).contiguous(at::MemoryFormat::ChannelsLast))},
                             {"b", leaf(normal({7}, 3, type))},
                             {"wte", leaf(normal({8, 3}, 4, type))},
                             {"experts", leaf(normal({2, 5, 3}, 5, type))}};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor& parameter = parameters[i].second;
    set_gradient(parameter, at::empty_like(parameter).copy_(3 * normal(parameter.sizes(), 10 + i)));
  }
  return parameters;
}

// What a step of the rules comes to, in float64: experts are two matrices by a rule of the caller's.
at::Tensor expected_of(const std::string& name, const at::Tensor& value, double c) {
  if (name == "b" || name == "wte") return value;
  if (name == "experts") return at::stack({softened(value[0], c), softened(value[1], c)});
  return softened_tensor(value, c);
}

Rule experts_rule() {
  Rule rule;
  rule.name_pattern = "experts";
  rule.batch_axes = 1;
  return rule;
}

TEST(SoftGradient, EqualsItsFormula) {
  for (const Backend backend : {Backend::automatic, Backend::core, Backend::aten}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const double c : {0.1, 2.0}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + " backend " + std::to_string(static_cast<int>(backend)));
        const NamedTensors parameters = soft_model(type);
        NamedTensors before;
        for (const auto& [name, tensor] : parameters) before.emplace_back(name, tensor.grad().clone());
        GradientClipOptions options = soft_options(GradientClip::soft, c, backend);
        options.spectral.rules = {experts_rule()};
        double square = 0;
        for (const auto& [name, g] : before) square += std::pow(testing::norm_of(g), 2);
        const auto clipper = make_gradient_clipper(parameters, options);
        EXPECT_NEAR(clipper->before_step().item<double>(), std::sqrt(square), 4 * epsilon(type) * std::sqrt(square));
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const auto& [name, g] = before[i];
          const at::Tensor& actual = parameters[i].second.grad();
          // Rounding of the result, and 100 times that of the Gram matrix in float64 (sigma_max / c up to 200).
          const double tolerance = epsilon(type) * testing::norm_of(actual) +
                                   100 * epsilon(at::kDouble) * testing::norm_of(g) * (1 + 200 * 0.1 / c);
          EXPECT_TRUE(close(actual, expected_of(name, g, c), tolerance)) << name;
          EXPECT_EQ(actual.strides(), g.strides());
        }
        EXPECT_NO_THROW(clipper->after_step(0.1));
      }
    }
  }
}

// By products: every shape and spectrum, up to the ratios sigma_max / c that the header speaks of.
TEST(SoftByProducts, AccuracyFollowsTheRatio) {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 9}, {9, 1}, {20, 30}, {30, 20}, {16, 16}}) {
    for (const double ratio : {1e-6, 1.0, 1e2, 1e4, 1e5}) {
      std::vector<double> sigma(static_cast<std::size_t>(std::min(rows, cols)), 0.0);
      for (std::size_t i = 0; i < sigma.size(); ++i) sigma[i] = i == 0 ? ratio : std::min(ratio, 2.0 / double(i));
      const double c = 0.3;
      const at::Tensor G = testing::with_singular_values(rows, cols, sigma, 7) * c;
      const at::Tensor expected = softened(G, c), actual = soften_by_products(G.unsqueeze(0), c)[0];
      // Relative to the result, 2e-17 (sigma_max / c)^2 was measured, a tenth of eps ratio^2; and rounding in 20
      // rounds, measured 0.3 of this.
      const double k = std::min(rows, cols);
      const double relative = epsilon(at::kDouble) * (20 * std::sqrt(k) + ratio * ratio);
      EXPECT_TRUE(close(actual, expected, relative * testing::norm_of(expected)))
          << rows << " x " << cols << ", " << ratio;
    }
  }
}

// Beyond all ratios: nothing diverges, the spike becomes c, no singular value exceeds c.
TEST(SoftByProducts, HugeSpikesBecomeTheLimit) {
  for (const double spike : {1e8, 1e12, 1e100}) {
    const at::Tensor G = testing::with_singular_values(20, 30, {spike, 1, 0.5, 0.1}, 8);
    const at::Tensor after = at::linalg_svdvals(soften_by_products(G.unsqueeze(0), 1.0)[0]);
    EXPECT_NEAR(after[0].item<double>(), 1, 1e-6) << spike;  // the root of the least share, 1e-13, and rounding
    EXPECT_LE(after[1].item<double>(), 1 + 1e-6) << spike;
  }
}

TEST(SoftGradient, NonFiniteMatricesAreLeftAlone) {
  for (const Backend backend : {Backend::core, Backend::aten}) {
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      NamedTensors parameters = soft_model(at::kFloat), finite = soft_model(at::kFloat);
      GradientClipOptions options = soft_options(GradientClip::soft, 0.5, backend);
      options.spectral.rules = {experts_rule()};
      parameters[0].second.grad()[1][2] = bad;
      parameters[4].second.grad()[0][1][2] = bad;
      const at::Tensor w = parameters[0].second.grad().clone(), experts = parameters[4].second.grad().clone();
      EXPECT_FALSE(std::isfinite(make_gradient_clipper(parameters, options)->before_step().item<double>()));
      (void)make_gradient_clipper(finite, options)->before_step();
      const auto same = [](const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 0, 0, true); };
      EXPECT_TRUE(same(parameters[0].second.grad(), w));
      EXPECT_TRUE(same(parameters[4].second.grad()[0], experts[0]));
      EXPECT_TRUE(same(parameters[4].second.grad()[1], finite[4].second.grad()[1]));  // the other matrix of the batch
      EXPECT_TRUE(same(parameters[1].second.grad(), finite[1].second.grad()));
    }
  }
}

TEST(SoftGradient, ThreadsDoNotMatter) {
  const int threads = at::get_num_threads();
  std::vector<NamedTensors> results;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    results.push_back(soft_model(at::kFloat));
    (void)make_gradient_clipper(results.back(), soft_options(GradientClip::soft, 0.5))->before_step();
  }
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::equal(results[0][i].second.grad(), results[1][i].second.grad())) << results[0][i].first;
  }
}

// One step of an optimizer that moves each parameter by lr times its gradient, plus a twist that only updates see.
void move(const NamedTensors& parameters, double lr) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.grad().defined()) tensor.sub_(tensor.grad().add(tensor, 0.1), lr);
  }
}

TEST(SoftUpdate, EqualsItsFormula) {
  const double c = 0.7, lr = 0.05;
  for (const Backend backend : {Backend::automatic, Backend::aten}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const NamedTensors parameters = soft_model(type);
      GradientClipOptions options = soft_options(GradientClip::soft_update, c, backend);
      options.spectral.rules = {experts_rule()};
      const auto clipper = make_gradient_clipper(parameters, options);
      for (int step = 0; step < 2; ++step) {  // the second step must not remember the first
        std::vector<at::Tensor> old, moved;
        for (const auto& [name, tensor] : parameters) old.push_back(tensor.detach().to(at::kDouble).clone());
        (void)clipper->before_step();
        move(parameters, lr);
        for (const auto& [name, tensor] : parameters) moved.push_back(tensor.detach().to(at::kDouble).clone());
        clipper->after_step(lr);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const at::Tensor expected = old[i] + lr * expected_of(parameters[i].first, (moved[i] - old[i]) / lr, c);
          // Three roundings of numbers the size of p, and the update's own; measured 0.2 of this.
          const double tolerance = epsilon(type) * (testing::norm_of(old[i]) + testing::norm_of(moved[i]));
          EXPECT_TRUE(close(parameters[i].second, expected, tolerance)) << parameters[i].first;
        }
        EXPECT_GT(testing::distance(parameters[0].second, moved[0]), 1e-2);  // it did soften
      }
    }
  }
}

TEST(SoftUpdate, WhatStaysAsItWas) {
  for (const auto& [c, lr] : {std::pair{1e12, 0.05}, {0.1, 0.0}}) {  // c above everything; no rate
    const NamedTensors parameters = soft_model(at::kFloat), control = soft_model(at::kFloat);
    const auto clipper = make_gradient_clipper(parameters, soft_options(GradientClip::soft_update, c));
    (void)clipper->before_step();
    move(parameters, 0.05);
    move(control, 0.05);
    clipper->after_step(lr);
    for (std::size_t i = 0; i < control.size(); ++i) {
      EXPECT_TRUE(at::equal(parameters[i].second, control[i].second)) << control[i].first;
    }
  }
}

// A parameter without a gradient is not the clipper's business, even if somebody moved it; gradients are not touched.
TEST(SoftUpdate, OnlyWhatHasAGradient) {
  NamedTensors parameters = soft_model(at::kFloat);
  parameters[0].second.mutable_grad() = at::Tensor();
  const at::Tensor conv_gradient = parameters[1].second.grad().clone();
  const auto clipper = make_gradient_clipper(parameters, soft_options(GradientClip::soft_update, 0.1));
  (void)clipper->before_step();
  const at::NoGradGuard no_grad;
  parameters[0].second.add_(1);
  const at::Tensor moved = parameters[0].second.clone();
  clipper->after_step(0.1);
  EXPECT_TRUE(at::equal(parameters[0].second, moved));
  EXPECT_TRUE(at::equal(parameters[1].second.grad(), conv_gradient));
}

TEST(SoftUpdate, NonFiniteUpdatesAreLeftAlone) {
  const double infinity = std::numeric_limits<double>::infinity();
  NamedTensors parameters = soft_model(at::kFloat);
  const auto clipper = make_gradient_clipper(parameters, soft_options(GradientClip::soft_update, 0.1));
  (void)clipper->before_step();
  const at::NoGradGuard no_grad;
  parameters[0].second[0][0] = infinity;
  const at::Tensor moved = parameters[0].second.clone();
  clipper->after_step(0.1);
  EXPECT_TRUE(at::equal(parameters[0].second, moved));
}

TEST(SoftUpdate, Misuse) {
  const auto clipper = make_gradient_clipper(soft_model(at::kFloat), soft_options(GradientClip::soft_update, 0.1));
  EXPECT_NE(message_of<InvalidArgument>([&] { clipper->after_step(0.1); }).find("before_step"), std::string::npos);
  (void)clipper->before_step();
  EXPECT_NE(message_of<InvalidArgument>([&] { clipper->after_step(-1); }).find("lr = -1"), std::string::npos);
  clipper->after_step(0.1);
  EXPECT_THROW(clipper->after_step(0.1), InvalidArgument);  // each step needs its own

  const NamedTensors integers = {{"w", at::ones({2, 2}, at::kLong)}};
  const std::string message =
      message_of<InvalidArgument>([&] { (void)make_gradient_clipper(integers, soft_options(GradientClip::soft, 1)); });
  EXPECT_NE(message.find("parameter \"w\" of type Long"), std::string::npos) << message;
  const NamedTensors elsewhere = {{"w", at::empty({2, 2}, at::TensorOptions().device(at::kMeta))}};
  EXPECT_THROW((void)make_gradient_clipper(elsewhere, soft_options(GradientClip::soft, 1, Backend::core)),
               InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// Where a clip stands: gradient, update, momentum, each against the plain optimizer and an SVD in float64.
#include "spectralclip/torch/clipped_optimizer.h"

#include <memory>

#include "spectralclip/error.h"
#include "spectralclip/torch/muon.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::close;
using testing::epsilon;
using testing::leaf;
using testing::map_singular_values;
using testing::message_of;
using testing::normal;
using testing::set_gradient;

constexpr double kTau = 0.6;
constexpr double kRate = 0.05;

NamedTensors model(at::ScalarType type = at::kDouble) {
  return {
      {"a", leaf(normal({6, 5}, 1, type))}, {"b", leaf(normal({7}, 2, type))}, {"c", leaf(normal({4, 9}, 3, type))}};
}

void give_gradients(const NamedTensors& parameters, std::uint64_t step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].second;
    set_gradient(parameter, 3 * normal(parameter.sizes(), 100 * step + i, parameter.scalar_type()));
  }
}

std::vector<at::Tensor> tensors(const NamedTensors& parameters) {
  std::vector<at::Tensor> list;
  for (const auto& [name, tensor] : parameters) list.push_back(tensor);
  return list;
}

std::vector<at::Tensor> copies(const NamedTensors& parameters) {
  std::vector<at::Tensor> list;
  for (const auto& [name, tensor] : parameters) list.push_back(tensor.detach().clone());
  return list;
}

at::Tensor clipped(const at::Tensor& D, double tau) {
  if (D.dim() < 2) return D * std::min(1.0, tau / testing::norm_of(D));
  return map_singular_values(D, [tau](double sigma) { return std::min(sigma, tau); });
}

GradientClipOptions spectral(double tau = kTau) {
  GradientClipOptions options;
  options.spectral.threshold.kind = ThresholdKind::constant;
  options.spectral.threshold.tau = tau;
  options.spectral.clip.method = Method::exact;
  return options;
}

using MakeOptimizer = std::function<std::unique_ptr<::torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <class Optimizer, class Options>
MakeOptimizer maker(Options options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

const std::vector<std::pair<const char*, MakeOptimizer>>& optimizers() {
  using namespace ::torch::optim;
  static const std::vector<std::pair<const char*, MakeOptimizer>> all = {
      {"sgd", maker<SGD>(SGDOptions(kRate).momentum(0.9).weight_decay(0.1))},
      {"adamw", maker<AdamW>(AdamWOptions(kRate))},
      {"adam", maker<Adam>(AdamOptions(kRate).amsgrad(true))},
      {"rmsprop", maker<RMSprop>(RMSpropOptions(kRate))},
      {"adagrad", maker<Adagrad>(AdagradOptions(kRate))},
      {"momentum", maker<MomentumSgd>(MomentumSgdOptions(kRate).decoupled(true).weight_decay(0.1))}};
  return all;
}

TEST(ClippedOptimizer, AnUpdateIsTheClippedUpdate) {
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    const NamedTensors ours = model(), plain = model();
    const auto inner = make(tensors(ours)), reference = make(tensors(plain));
    const auto clipper = make_gradient_clipper(ours, spectral());
    ClippedOptimizer optimizer(*inner, *clipper, ClipPosition::update);
    EXPECT_FALSE(optimizer.copies_parameters());
    int changed = 0;
    for (std::uint64_t step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < ours.size(); ++i) plain[i].second.detach().copy_(ours[i].second.detach());
      give_gradients(ours, step);
      give_gradients(plain, step);
      const std::vector<at::Tensor> old = copies(plain);
      (void)reference->step();
      (void)optimizer.step();
      double squares = 0;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const at::Tensor D = (plain[i].second.detach() - old[i]) / kRate;
        const at::Tensor expected = old[i] + kRate * clipped(D, kTau);
        EXPECT_TRUE(close(ours[i].second, expected, 1e4 * epsilon(at::kDouble) * testing::norm_of(old[i])));
        changed += testing::distance(plain[i].second, expected) > 1e-6 ? 1 : 0;
        squares += D.square().sum().item<double>();
      }
      EXPECT_NEAR(optimizer.total_norm().item<double>(), std::sqrt(squares), 1e-6 * std::sqrt(squares));
    }
    EXPECT_GT(changed, 6);
  }
}

TEST(ClippedOptimizer, EveryKindClipsUpdates) {
  for (const GradientClip kind : {GradientClip::global_norm, GradientClip::layer_norm, GradientClip::agc,
                                  GradientClip::coordinate, GradientClip::soft, GradientClip::spectral}) {
    SCOPED_TRACE(to_string(kind));
    GradientClipOptions options = spectral(0.2);
    options.kind = kind;
    options.max_norm = options.max_value = options.soft_scale = 0.2;
    const NamedTensors ours = model(), plain = model();
    ::torch::optim::SGD inner(tensors(ours), kRate), reference(tensors(plain), kRate);
    const auto clipper = make_gradient_clipper(ours, options);
    ClippedOptimizer optimizer(inner, *clipper, ClipPosition::update);
    EXPECT_EQ(optimizer.copies_parameters(), kind == GradientClip::global_norm);
    give_gradients(ours, 1);
    give_gradients(plain, 1);
    const std::vector<at::Tensor> old = copies(plain);
    (void)reference.step();
    (void)optimizer.step();
    // The same clip of the updates as a whole, by the clipper itself.
    std::vector<at::Tensor> updates;
    for (std::size_t i = 0; i < ours.size(); ++i) updates.push_back((plain[i].second.detach() - old[i]) / kRate);
    (void)make_gradient_clipper(plain, options)->clip(updates);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(close(ours[i].second, old[i] + kRate * updates[i], 1e-12)) << ours[i].first;
    }
    EXPECT_GT(testing::distance(ours[0].second, plain[0].second), 1e-3);
  }
}

TEST(ClippedOptimizer, WhatIsNotClippedKeepsItsBits) {
  for (const ClipPosition position : {ClipPosition::gradient, ClipPosition::update, ClipPosition::momentum}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const NamedTensors ours = model(type), plain = model(type);
      MomentumSgd inner(tensors(ours), MomentumSgdOptions(kRate)), reference(tensors(plain), MomentumSgdOptions(kRate));
      const auto clipper = make_gradient_clipper(ours, spectral(1e6));
      ClippedOptimizer optimizer(inner, *clipper, position);
      for (std::uint64_t step = 0; step < 3; ++step) {
        give_gradients(ours, step);
        give_gradients(plain, step);
        (void)optimizer.step();
        (void)reference.step();
      }
      for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i].second, plain[i].second));
    }
  }
}

TEST(ClippedOptimizer, MomentumIsClippedAndItsBufferIsNot) {
  for (const GradientClip kind : {GradientClip::spectral, GradientClip::global_norm}) {
    const NamedTensors ours = model();
    GradientClipOptions options = spectral();
    options.kind = kind;
    options.max_norm = kTau;
    MomentumSgd inner(tensors(ours), MomentumSgdOptions(kRate).momentum(0.9));
    const auto clipper = make_gradient_clipper(ours, options);
    std::vector<at::Tensor> expected = copies(ours), buffers;
    for (const at::Tensor& p : expected) buffers.push_back(at::zeros_like(p));
    {
      ClippedOptimizer optimizer(inner, *clipper, ClipPosition::momentum);
      for (std::uint64_t step = 0; step < 4; ++step) {
        give_gradients(ours, step);
        double squares = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) {
          buffers[i] = 0.9 * buffers[i] + 0.1 * ours[i].second.grad();
          squares += buffers[i].square().sum().item<double>();
        }
        const double factor = std::min(1.0, kTau / (std::sqrt(squares) + 1e-6));
        for (std::size_t i = 0; i < ours.size(); ++i) {
          expected[i] -= kRate * (kind == GradientClip::spectral ? clipped(buffers[i], kTau) : factor * buffers[i]);
        }
        (void)optimizer.step();
        EXPECT_NEAR(optimizer.total_norm().item<double>(), std::sqrt(squares), 1e-6 * std::sqrt(squares));
      }
      for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(close(ours[i].second, expected[i], 1e-12));
    }
    give_gradients(ours, 9);  // it is gone, and the optimizer is plain again
    (void)inner.step();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      buffers[i] = 0.9 * buffers[i] + 0.1 * ours[i].second.grad();
      EXPECT_TRUE(close(ours[i].second, expected[i] - kRate * buffers[i], 1e-12));
    }
  }
}

TEST(ClippedOptimizer, MomentumOfMuonIsClippedBeforeItIsOrthogonalized) {
  const NamedTensors ours = {{"w", leaf(normal({6, 5}, 1))}}, plain = {{"w", leaf(normal({6, 5}, 1))}};
  const MuonOptions options = MuonOptions(kRate).nesterov(false).momentum(0);  // B = G
  Muon inner(tensors(ours), options), reference(tensors(plain), options);
  const auto clipper = make_gradient_clipper(ours, spectral(1.0));
  ClippedOptimizer optimizer(inner, *clipper, ClipPosition::momentum);
  give_gradients(ours, 1);
  at::Tensor w = plain[0].second;
  set_gradient(w, clipped(ours[0].second.grad(), 1.0));
  (void)optimizer.step();
  (void)reference.step();
  EXPECT_TRUE(close(ours[0].second, plain[0].second, 1e-9));
}

TEST(ClippedOptimizer, ClosuresAndLbfgs) {
  for (const ClipPosition position : {ClipPosition::gradient, ClipPosition::update}) {
    const NamedTensors ours = {{"w", leaf(normal({6, 5}, 1))}};
    ::torch::optim::LBFGS inner(tensors(ours), ::torch::optim::LBFGSOptions(0.1).max_iter(3));
    const auto clipper = make_gradient_clipper(ours, spectral(0.2));
    ClippedOptimizer optimizer(inner, *clipper, position);
    const at::Tensor old = ours[0].second.detach().clone();
    const at::Tensor loss = optimizer.step([&] {
      inner.zero_grad();
      at::Tensor value = (ours[0].second * normal({6, 5}, 2)).square().sum();
      value.backward();
      return value;
    });
    EXPECT_GT(loss.item<double>(), 0);
    EXPECT_GT(testing::distance(ours[0].second, old), 1e-3);
    if (position != ClipPosition::update) continue;
    EXPECT_TRUE(optimizer.copies_parameters());
    const at::Tensor moved = (ours[0].second.detach() - old) / 0.1;
    EXPECT_LE(at::linalg_matrix_norm(moved, 2).item<double>(), 0.2 * (1 + 1e-9));
  }
}

TEST(ClippedOptimizer, MistakesAreNamed) {
  const NamedTensors ours = model(), others = model();
  ::torch::optim::SGD sgd(tensors(ours), kRate);
  const auto clipper = make_gradient_clipper(ours, spectral()), foreign = make_gradient_clipper(others, spectral());
  EXPECT_NE(message_of<InvalidArgument>([&] {
              ClippedOptimizer(sgd, *clipper, ClipPosition::momentum);
            }).find("MomentumSgd or Muon"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidArgument>([&] { ClippedOptimizer(sgd, *foreign); }).find("same model"),
            std::string::npos);
  EXPECT_NE(
      message_of<InvalidArgument>([&] { (void)parse_clip_position("updates"); }).find("gradient, update, momentum"),
      std::string::npos);
  at::Tensor a = ours[0].second;
  give_gradients(ours, 1);
  const at::Tensor before = a.grad().clone();
  at::Tensor c = ours[2].second;
  c.mutable_grad() = at::ones({1, 1}, at::kDouble).expand({4, 9});
  for (const GradientClip kind : {GradientClip::coordinate, GradientClip::soft, GradientClip::spectral}) {
    GradientClipOptions options = spectral(0.1);
    options.kind = kind;
    options.max_value = options.soft_scale = 0.1;
    EXPECT_NE(message_of<InvalidArgument>([&] {
                (void)make_gradient_clipper(ours, options)->before_step();
              }).find("expanded"),
              std::string::npos);
    EXPECT_TRUE(at::equal(a.grad(), before));  // nothing was written
  }
}

}  // namespace
}  // namespace spectralclip::torch

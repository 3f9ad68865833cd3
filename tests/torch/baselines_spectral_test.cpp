// SPDX-License-Identifier: Apache-2.0
// The spectral kind behind the common interface does what SpectralClipper does on the same gradients.
#include "spectralclip/error.h"
#include "spectralclip/torch/gradient_clipper.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::leaf;
using testing::normal;
using testing::set_gradient;

NamedTensors spectral_model() {
  return {{"w", leaf(normal({6, 9}, 1, at::kFloat))}, {"b", leaf(normal({7}, 2, at::kFloat))}};
}

void set_gradients(NamedTensors& parameters, std::uint64_t step) {
  for (auto& [name, tensor] : parameters) {
    set_gradient(tensor, static_cast<double>(1 + step) * normal(tensor.sizes(), 10 + step, at::kFloat));
  }
}

GradientClipOptions spectral_options() {
  GradientClipOptions options;
  options.kind = GradientClip::spectral;
  options.spectral.threshold.decay = 0.5;
  return options;
}

TEST(SpectralKind, ForwardsToTheClipper) {
  NamedTensors ours = spectral_model(), theirs = spectral_model();
  const auto clipper = make_gradient_clipper(ours, spectral_options());
  SpectralClipper direct(theirs, spectral_options().spectral);
  for (std::uint64_t step = 0; step < 4; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    EXPECT_EQ(clipper->before_step().item<double>(), direct.step().total_norm.item<double>());
    clipper->after_step(0.1);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::equal(ours[i].second.grad(), theirs[i].second.grad()));
    }
  }
  EXPECT_FALSE(at::equal(ours[0].second.grad(), 4 * normal({6, 9}, 13, at::kFloat)));  // it did clip
  ASSERT_NE(clipper->spectral(), nullptr);
  EXPECT_EQ(clipper->spectral()->steps(), 4);
}

TEST(SpectralKind, StateGoesOn) {
  NamedTensors ours = spectral_model(), theirs = spectral_model();
  const auto clipper = make_gradient_clipper(ours, spectral_options());
  for (std::uint64_t step = 0; step < 3; ++step) {
    set_gradients(ours, step);
    (void)clipper->before_step();
  }
  const auto resumed = make_gradient_clipper(theirs, spectral_options());
  resumed->deserialize(clipper->serialize());
  set_gradients(ours, 3);
  set_gradients(theirs, 3);
  (void)clipper->before_step();
  (void)resumed->before_step();
  EXPECT_TRUE(at::equal(ours[0].second.grad(), theirs[0].second.grad()));
  EXPECT_THROW(resumed->deserialize(std::vector<std::uint8_t>{1, 2, 3}), StateFileError);
}

}  // namespace
}  // namespace spectralclip::torch

// SPDX-License-Identifier: Apache-2.0
// SpectralClipper over a LibTorch module, and clip_grad_spectral_ with LibTorch's overloads, against an SVD in float64.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "spectralclip/torch.h"
#include "tensor/window.h"

namespace spectralclip::torch {
namespace {

at::Tensor clipped_by_svd(const at::Tensor& G, double tau) {
  const at::Tensor wide = G.to(at::kDouble).reshape({G.size(0), -1});
  const auto [U, S, Vh] = at::linalg_svd(wide, /*full_matrices=*/false);
  return at::matmul(U * S.clamp_max(tau), Vh).view(G.sizes());
}

// C_tau is 1-Lipschitz: rounding of storage and work, sqrt(max(m, n)) eps ||G||_F, and the tolerance of the method.
double allowed(const at::Tensor& G, double tolerance) {
  const auto longer = static_cast<double>(std::max(G.size(0), G.numel() / G.size(0)));
  const double norm = G.to(at::kDouble).norm().item<double>();
  return (std::sqrt(longer) * std::numeric_limits<float>::epsilon() + 3 * tolerance) * norm;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a.to(at::kDouble) - b).norm().item<double>(); }

struct NetImpl : ::torch::nn::Module {
  NetImpl()
      : embed(register_module("embed", ::torch::nn::Embedding(11, 6))),
        conv(register_module("conv", ::torch::nn::Conv2d(::torch::nn::Conv2dOptions(3, 8, 3)))),
        head(register_module("fc", ::torch::nn::Linear(8, 5))) {}
  ::torch::nn::Embedding embed;
  ::torch::nn::Conv2d conv;
  ::torch::nn::Linear head;
};

void fill_gradients(const ::torch::nn::Module& net, std::int64_t seed) {
  ::torch::manual_seed(seed);
  for (at::Tensor p : net.parameters()) p.mutable_grad() = at::randn_like(p.detach());
}

SpectralClipperOptions constant(double tau, Method method = Method::exact) {
  SpectralClipperOptions options;
  options.threshold.kind = ThresholdKind::constant;
  options.threshold.tau = tau;
  options.clip.method = method;
  return options;
}

class BackendTest : public ::testing::TestWithParam<Backend> {};

TEST_P(BackendTest, ClipsAModuleByItsRules) {
  NetImpl net;
  fill_gradients(net, 1);
  SpectralClipperOptions options = constant(1.5);
  options.backend = GetParam();
  SpectralClipper clipper(net, options);
  const at::Tensor conv = net.conv->weight.grad().clone(), head = net.head->weight.grad().clone();
  const at::Tensor embed = net.embed->weight.grad().clone(), bias = net.head->bias.grad().clone();
  double square = 0;
  for (const at::Tensor& p : net.parameters()) square += p.grad().to(at::kDouble).square().sum().item<double>();
  const at::Tensor norm = clipper.step();
  EXPECT_NEAR(norm.item<double>(), std::sqrt(square), 1e-5 * std::sqrt(square));
  EXPECT_LE(distance(net.conv->weight.grad(), clipped_by_svd(conv, 1.5)), allowed(conv, 0));
  EXPECT_LE(distance(net.head->weight.grad(), clipped_by_svd(head, 1.5)), allowed(head, 0));
  EXPECT_TRUE(at::equal(net.embed->weight.grad(), embed));
  EXPECT_NEAR(net.head->bias.grad().norm().item<double>(), std::min(1.5, bias.norm().item<double>()), 1e-5);
  const spectralclip::StepReport report = clipper.report();
  ASSERT_EQ(report.layers.size(), 5U);
  EXPECT_EQ(report.layers[0].rule, "embedding by type: skipped");
  EXPECT_GT(report.layers[1].clip.clipped, 0);
}

// The same words as in Python: the norm at once, the rest when asked for, and only for its own step.
TEST_P(BackendTest, AStepReturnsItsReport) {
  NetImpl net;
  fill_gradients(net, 1);
  SpectralClipperOptions options = constant(1.5);
  options.backend = GetParam();
  auto clipper = std::make_unique<SpectralClipper>(net, options);
  const StepReport first = clipper->step();
  EXPECT_EQ(first.step, 1);
  const auto& layers = first.layers();
  ASSERT_EQ(layers.size(), 5U);
  const auto clipped = first.clipped();
  ASSERT_FALSE(clipped.empty());
  EXPECT_NE(std::find(clipped.begin(), clipped.end(), "fc.weight"), clipped.end());
  EXPECT_EQ(std::find(clipped.begin(), clipped.end(), "embed.weight"), clipped.end());
  double square = 0;
  for (const at::Tensor& p : net.parameters()) square += p.grad().to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(first.norm_after(), std::sqrt(square), 1e-5 * std::sqrt(square));
  EXPECT_GT(first.total_norm.item<double>(), first.norm_after());
  const at::Tensor as_clip_grad_norm = first;
  EXPECT_TRUE(as_clip_grad_norm.is_same(first.total_norm));
  fill_gradients(net, 2);
  net.head->weight.mutable_grad()[0][0] = std::numeric_limits<float>::quiet_NaN();
  const StepReport second = clipper->step();
  EXPECT_EQ(first.clipped(), clipped) << "what was read stays";
  fill_gradients(net, 3);
  const StepReport third = clipper->step();
  EXPECT_THROW((void)second.layers(), Error) << "unread, and the clipper has gone on";
  clipper->deserialize(clipper->serialize());
  EXPECT_THROW((void)third.layers(), Error) << "a load";
  fill_gradients(net, 4);
  net.head->weight.mutable_grad()[0][0] = std::numeric_limits<float>::quiet_NaN();
  const StepReport fourth = clipper->step();
  EXPECT_EQ(fourth.not_finite(), std::vector<std::string>{"fc.weight"});
  EXPECT_TRUE(std::isfinite(fourth.norm_after()));
  EXPECT_TRUE(fourth.rank_exhausted().empty() && fourth.not_converged().empty() && fourth.out_of_memory().empty());
  const StepReport fifth = clipper->step();
  clipper.reset();
  EXPECT_THROW((void)fifth.layers(), Error) << "its clipper is gone";
}

TEST_P(BackendTest, ChannelsLastKeepsStorageAndStrides) {
  const at::Tensor weight = at::zeros({16, 8, 3, 3});
  at::Tensor G = at::randn({16, 8, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor before = G.clone();
  const auto strides = G.strides().vec();
  const void* const data = G.data_ptr();
  EXPECT_TRUE(window_of(G, Axes{0, 1})) << "needs no copy";
  SpectralClipperOptions options = constant(2.0);
  options.backend = GetParam();
  SpectralClipper clipper(NamedTensors{{"conv.weight", weight}}, options);
  clipper.step({G});
  EXPECT_EQ(G.data_ptr(), data);
  EXPECT_EQ(G.strides().vec(), strides);
  EXPECT_LE(distance(G, clipped_by_svd(before, 2.0)), allowed(before, 0));
}

TEST_P(BackendTest, ResumedFromBytesContinuesBitForBit) {
  SpectralClipperOptions options;
  options.backend = GetParam();
  NetImpl net;
  SpectralClipper first(net, options);
  for (int step = 0; step < 4; ++step) {
    fill_gradients(net, step);
    first.step();
  }
  SpectralClipper second(net, options);
  second.deserialize(first.serialize());
  EXPECT_EQ(second.steps(), 4);
  for (int step = 4; step < 7; ++step) {
    fill_gradients(net, step);
    first.step();
    const at::Tensor expected = net.conv->weight.grad().clone();
    fill_gradients(net, step);
    second.step();
    EXPECT_TRUE(at::equal(net.conv->weight.grad(), expected)) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendTest, ::testing::Values(Backend::core, Backend::aten),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

TEST(Windows, AnyOrderOfDenseColumnsButNoGaps) {
  const at::Tensor base = at::zeros({6, 4, 5});
  EXPECT_TRUE(window_of(base, {0, 1}));
  EXPECT_TRUE(window_of(base.transpose(1, 2), {0, 1})) << "columns in another order";
  EXPECT_FALSE(window_of(base.transpose(0, 1), {0, 1})) << "rows inside columns";
  EXPECT_EQ(window_of(at::zeros({6, 9}).slice(1, 2, 7), {0, 1})->row_stride, 9);
  EXPECT_FALSE(window_of(at::zeros({6, 9}).slice(1, 0, 9, 2), {0, 1}));
  EXPECT_FALSE(window_of(base.transpose(0, 1), {1, 1})) << "the order of a batch must stay";
}

TEST(ClipGradSpectral, HasTheOverloadsOfClipGradNorm) {
  at::Tensor a = at::zeros({4, 3}).requires_grad_(), b = at::zeros({5}).requires_grad_();
  const auto fill = [&] {
    a.mutable_grad() = at::diag(at::tensor({3.0f, 2.0f, 0.5f})).index({at::indexing::Slice()});
    a.mutable_grad() = at::cat({a.grad(), at::zeros({1, 3})});
    b.mutable_grad() = at::ones({5});
  };
  const double norm = std::sqrt(9 + 4 + 0.25 + 5);
  fill();
  EXPECT_NEAR(clip_grad_spectral_(std::vector<at::Tensor>{a, b}, 1.0), norm, 1e-5);
  EXPECT_NEAR(at::linalg_matrix_norm(a.grad(), 2).item<double>(), 1.0, 1e-5);
  EXPECT_NEAR(b.grad().norm().item<double>(), 1.0, 1e-6);
  fill();
  EXPECT_NEAR(clip_grad_spectral_({a, b}, 1.0), norm, 1e-5);
  fill();
  EXPECT_NEAR(clip_grad_spectral_(b, 1.0), std::sqrt(5), 1e-6);
  EXPECT_EQ(clip_grad_spectral_(std::vector<at::Tensor>{}, 1.0), 0.0);
  fill();
  b.mutable_grad()[2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor before = a.grad().clone();
  EXPECT_THROW(clip_grad_spectral_({a, b}, 1.0, {}, /*error_if_nonfinite=*/true), std::runtime_error);
  EXPECT_TRUE(at::equal(a.grad(), before)) << "nothing was touched";
  EXPECT_TRUE(std::isnan(clip_grad_spectral_({a, b}, 1.0)));
  EXPECT_FALSE(at::equal(a.grad(), before)) << "the finite layer is clipped";
  EXPECT_THROW(clip_grad_spectral_(a, -1.0), InvalidArgument);
}

TEST(SpectralClipperMisuse, SaysWhatIsWrong) {
  at::Tensor p = at::zeros({3, 3});
  SpectralClipper clipper(NamedTensors{{"w", p}}, constant(1.0));
  EXPECT_THROW(clipper.step({at::zeros({2, 3})}), InvalidArgument);
  EXPECT_THROW(clipper.step({at::zeros({3, 3}, at::kComplexFloat)}), InvalidArgument);
  EXPECT_THROW(clipper.step(std::vector<at::Tensor>{}), InvalidArgument);
  EXPECT_THROW((void)parse_backend("gpu"), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::torch

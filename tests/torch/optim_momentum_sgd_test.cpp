// SPDX-License-Identifier: Apache-2.0
// MomentumSgd against its formula, entry by entry in float64, and against LibTorch's SGD.
#include "spectralclip/torch/momentum_sgd.h"

#include "spectralclip/error.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::close;
using testing::epsilon;
using testing::leaf;
using testing::message_of;
using testing::normal;
using testing::set_gradient;

constexpr int kSgdSteps = 5;

at::Tensor gradient(int step) { return normal({4, 3}, 30 + static_cast<std::uint64_t>(step)); }

double by_hand(double p, std::int64_t entry, const MomentumSgdOptions& o) {
  double B = 0;
  const double weight = o.form() == MomentumForm::ema ? 1 - o.momentum() : 1;
  for (int t = 0; t < kSgdSteps; ++t) {
    double g = gradient(t).flatten()[entry].item<double>();
    const double decay = o.weight_decay() * p;
    if (!o.decoupled()) g += decay;
    if (o.decoupled()) p -= o.lr() * decay;
    B = o.momentum() * B + weight * g;
    p -= o.lr() * (o.nesterov() ? g + o.momentum() * B : B);
  }
  return p;
}

at::Tensor run(::torch::optim::Optimizer& optimizer, at::Tensor parameter) {
  for (int t = 0; t < kSgdSteps; ++t) {
    set_gradient(parameter, gradient(t));
    optimizer.step();
  }
  return parameter.detach();
}

at::Tensor run(const MomentumSgdOptions& options) {
  at::Tensor parameter = leaf(normal({4, 3}, 1));
  MomentumSgd optimizer({parameter}, options);
  return run(optimizer, parameter);
}

std::vector<MomentumSgdOptions> sgd_settings() {
  const MomentumSgdOptions ema(0.1), classic = MomentumSgdOptions(0.1).form(MomentumForm::classic);
  return {ema,
          classic,
          MomentumSgdOptions(0.2),
          MomentumSgdOptions(ema).momentum(0.5),
          MomentumSgdOptions(classic).momentum(0.5),
          MomentumSgdOptions(ema).momentum(0),
          MomentumSgdOptions(classic).nesterov(true),
          MomentumSgdOptions(ema).weight_decay(0.3),
          MomentumSgdOptions(ema).weight_decay(0.3).decoupled(true),
          MomentumSgdOptions(classic).weight_decay(0.3),
          MomentumSgdOptions(classic).weight_decay(0.3).decoupled(true),
          MomentumSgdOptions(classic).nesterov(true).weight_decay(0.3)};
}

TEST(MomentumSgd, EqualsItsFormula) {
  for (const MomentumSgdOptions& options : sgd_settings()) {
    const at::Tensor actual = run(options).flatten();
    at::Tensor expected = normal({4, 3}, 1).flatten();
    for (std::int64_t i = 0; i < expected.size(0); ++i) expected[i] = by_hand(expected[i].item<double>(), i, options);
    // A few roundings a step of numbers the size of p and lr B; measured 0.14 of this.
    EXPECT_TRUE(close(actual, expected, kSgdSteps * epsilon(at::kDouble) * (1 + testing::norm_of(expected))));
  }
}

TEST(MomentumSgd, EveryOptionMatters) {
  const auto all = sgd_settings();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_GT(testing::distance(run(all[i]), run(all[j])), 1e-3) << i << " and " << j;
      EXPECT_FALSE(all[i] == all[j]) << i << " and " << j;
    }
  }
}

// The classic form with coupled decay is torch's SGD, to the bit.
TEST(MomentumSgd, ClassicIsLibTorchsSgd) {
  for (const bool nesterov : {false, true}) {
    for (const double decay : {0.0, 0.3}) {
      at::Tensor parameter = leaf(normal({4, 3}, 1));
      ::torch::optim::SGD theirs({parameter},
                                 ::torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(decay).nesterov(nesterov));
      const at::Tensor ours =
          run(MomentumSgdOptions(0.1).form(MomentumForm::classic).nesterov(nesterov).weight_decay(decay));
      EXPECT_TRUE(at::equal(ours, run(theirs, parameter)));
    }
  }
}

// The gradient is the caller's: weight decay and momentum work on copies.
TEST(MomentumSgd, LeavesTheGradientAlone) {
  for (const MomentumSgdOptions& options : sgd_settings()) {
    at::Tensor parameter = leaf(normal({4, 3}, 1));
    MomentumSgd optimizer({parameter}, options);
    for (int t = 0; t < 2; ++t) {
      set_gradient(parameter, gradient(t));
      optimizer.step();
      EXPECT_TRUE(at::equal(parameter.grad(), gradient(t)));
    }
  }
}

TEST(MomentumSgd, GroupsKeepTheirOptions) {
  const auto group = [](const MomentumSgdOptions& options) {
    return ::torch::optim::OptimizerParamGroup({leaf(normal({2}, 1))}, std::make_unique<MomentumSgdOptions>(options));
  };
  const auto first = MomentumSgdOptions(0.5).momentum(0.1), later = MomentumSgdOptions(0.7).weight_decay(0.2);
  MomentumSgd optimizer({group(first), ::torch::optim::OptimizerParamGroup({leaf(normal({2}, 1))})}, 0.3);
  optimizer.add_param_group(group(later));
  const auto options = [&](std::size_t i) {
    return static_cast<const MomentumSgdOptions&>(optimizer.param_groups()[i].options());
  };
  EXPECT_EQ(options(0), first);
  EXPECT_EQ(options(1), MomentumSgdOptions(0.3));
  EXPECT_EQ(options(2), later);
  EXPECT_THROW(optimizer.add_param_group(group(MomentumSgdOptions(-1))), InvalidArgument);
  EXPECT_EQ(optimizer.param_groups().size(), 3U);
}

TEST(MomentumSgd, Misuse) {
  const auto says = [](const MomentumSgdOptions& options, const std::string& text) {
    const std::string message = message_of<InvalidArgument>([&] { MomentumSgd({leaf(normal({2}, 1))}, options); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says(MomentumSgdOptions(-1), "lr = -1 must be finite and >= 0");
  says(MomentumSgdOptions(std::numeric_limits<double>::infinity()), "lr = inf");
  says(MomentumSgdOptions().momentum(1), "momentum = 1 must lie in [0, 1)");
  says(MomentumSgdOptions().weight_decay(-2), "weight_decay = -2");
  says(MomentumSgdOptions().nesterov(true), "nesterov needs form = classic");
  says(MomentumSgdOptions().form(MomentumForm::classic).momentum(0).nesterov(true), "momentum = 0");
  says(MomentumSgdOptions().form(static_cast<MomentumForm>(9)), "momentum form = 9 is none of ema, classic");

  // Options may go wrong later as well.
  at::Tensor parameter = leaf(normal({2}, 1));
  MomentumSgd optimizer({parameter}, 0.1);
  optimizer.param_groups()[0].options().set_lr(-3);
  EXPECT_NE(message_of<InvalidArgument>([&] { optimizer.step(); }).find("lr = -3"), std::string::npos);
}

TEST(MomentumSgd, NamesReadBack) {
  for (const MomentumForm form : {MomentumForm::ema, MomentumForm::classic}) {
    EXPECT_EQ(parse_momentum_form(to_string(form)), form);
  }
  EXPECT_NE(
      message_of<InvalidArgument>([] { (void)parse_momentum_form("EMA"); }).find("\"EMA\" is none of ema, classic"),
      std::string::npos);
}

}  // namespace
}  // namespace spectralclip::torch

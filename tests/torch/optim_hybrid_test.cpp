// SPDX-License-Identifier: Apache-2.0
// AdamW inside Muon, the split of a model into groups, misuse, and what an optimizer owes to LibTorch.
#include "spectralclip/error.h"
#include "spectralclip/torch/muon.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::close;
using testing::epsilon;
using testing::leaf;
using testing::message_of;
using testing::normal;
using testing::set_gradient;
using ::torch::optim::OptimizerParamGroup;

constexpr int kAdamSteps = 5;

MuonOptions adamw() { return muon_adamw_options(0.1).betas({0.8, 0.95}).adamw_eps(1e-3).weight_decay(0.3); }

at::Tensor gradient(at::IntArrayRef shape, int step) { return normal(shape, 20 + static_cast<std::uint64_t>(step)); }

// p after kAdamSteps by the formula of Loshchilov and Hutter, entry by entry.
std::vector<double> adamw_by_hand(std::vector<double> p, at::IntArrayRef shape, const MuonOptions& o) {
  const auto [b1, b2] = o.betas();
  std::vector<double> m(p.size()), v(p.size());
  for (int t = 1; t <= kAdamSteps; ++t) {
    const at::Tensor g = gradient(shape, t).flatten();
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double gi = g[static_cast<std::int64_t>(i)].item<double>();
      m[i] = b1 * m[i] + (1 - b1) * gi;
      v[i] = b2 * v[i] + (1 - b2) * gi * gi;
      p[i] -= o.lr() * o.weight_decay() * p[i];
      p[i] -= o.lr() * (m[i] / (1 - std::pow(b1, t))) / (std::sqrt(v[i] / (1 - std::pow(b2, t))) + o.adamw_eps());
    }
  }
  return p;
}

at::Tensor adamw_run(at::IntArrayRef shape, const MuonOptions& options) {
  at::Tensor parameter = leaf(normal(shape, 1));
  Muon muon({parameter}, options);
  for (int t = 1; t <= kAdamSteps; ++t) {
    set_gradient(parameter, gradient(shape, t));
    muon.step();
  }
  return parameter.detach();
}

TEST(MuonAdamW, EqualsItsFormula) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {7}, {3, 4}}) {
    for (const MuonOptions& options : {adamw(), adamw().betas({0, 0.95}), adamw().betas({0.8, 0}),
                                       adamw().adamw_eps(0.5), adamw().weight_decay(0)}) {
      const at::Tensor start = normal(shape, 1).flatten();
      const std::vector<double> expected =
          adamw_by_hand({start.data_ptr<double>(), start.data_ptr<double>() + start.numel()}, shape, options);
      // A step moves an entry by about lr and rounds some ten times; measured 0.22 of this.
      const double tolerance = kAdamSteps * epsilon(at::kDouble) * (1 + testing::norm_of(start));
      EXPECT_TRUE(close(adamw_run(shape, options).flatten(), at::tensor(expected, at::kDouble), tolerance));
    }
  }
}

TEST(MuonAdamW, EqualsLibTorchs) {
  at::Tensor parameter = leaf(normal({7}, 1));
  ::torch::optim::AdamW theirs({parameter},
                               ::torch::optim::AdamWOptions(0.1).betas({0.8, 0.95}).eps(1e-3).weight_decay(0.3));
  for (int t = 1; t <= kAdamSteps; ++t) {
    set_gradient(parameter, gradient({7}, t));
    theirs.step();
  }
  const double tolerance = kAdamSteps * epsilon(at::kDouble) * (1 + testing::norm_of(parameter));
  EXPECT_TRUE(close(adamw_run({7}, adamw()), parameter.detach(), tolerance));
}

NamedTensors toy_model() {
  return {{"module.transformer.wte.weight", leaf(normal({11, 4}, 1))},
          {"h.0.attn.weight", leaf(normal({12, 4}, 2))},
          {"h.0.attn.bias", leaf(normal({12}, 3))},
          {"conv.weight", leaf(normal({3, 2, 2, 2}, 4))},
          {"scale", leaf(normal({}, 5))},
          {"token_emb.weight", leaf(normal({11, 4}, 6))},
          {"lm_head.weight", leaf(normal({11, 4}, 7))}};
}

bool holds(const OptimizerParamGroup& group, const std::vector<at::Tensor>& tensors) {
  if (group.params().size() != tensors.size()) return false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!group.params()[i].is_same(tensors[i])) return false;
  }
  return true;
}

TEST(MuonGroups, SplitByRules) {
  NamedTensors model = toy_model();
  model.emplace_back("tied.weight", model[1].second);
  const auto groups = muon_param_groups(model, MuonOptions(0.5), MuonOptions(0.25));
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_TRUE(holds(groups[0], {model[1].second, model[3].second, model[5].second}));
  EXPECT_TRUE(holds(groups[1], {model[0].second, model[2].second, model[4].second, model[6].second}));

  const Muon muon(groups);  // group options are kept, not merged with the defaults
  EXPECT_EQ(static_cast<const MuonOptions&>(muon.param_groups()[0].options()), MuonOptions(0.5));
  EXPECT_EQ(static_cast<const MuonOptions&>(muon.param_groups()[1].options()), MuonOptions(0.25).use_adamw(true));

  Rule skip;
  skip.name_pattern = "*emb*";
  skip.treatment = Treatment::skip;
  const auto ruled = muon_param_groups(model, {}, muon_adamw_options(), {skip});
  EXPECT_TRUE(holds(ruled[0], {model[1].second, model[3].second}));
}

TEST(MuonGroups, NoMatrixAtAll) {
  at::Tensor bias = leaf(normal({5}, 1));
  Muon muon(muon_param_groups({{"bias", bias}}));
  ASSERT_EQ(muon.param_groups().size(), 2U);
  set_gradient(bias, normal({5}, 2));
  muon.step();
  EXPECT_FALSE(at::equal(bias.detach(), normal({5}, 1)));
}

TEST(Muon, AbsentGradientsAreIgnored) {
  at::Tensor a = leaf(normal({3, 4}, 1)), b = leaf(normal({3, 4}, 2));
  Muon muon({a, b}, MuonOptions(0.1));
  set_gradient(b, normal({3, 4}, 3));
  muon.step();
  EXPECT_TRUE(at::equal(a.detach(), normal({3, 4}, 1)));
  EXPECT_FALSE(at::equal(b.detach(), normal({3, 4}, 2)));
  EXPECT_EQ(muon.state().size(), 1U);
}

TEST(Muon, ClosureRunsWithGradients) {
  at::Tensor p = leaf(normal({3, 4}, 1));
  Muon muon({p}, MuonOptions(0.1));
  const double before = p.square().sum().item<double>();
  const at::Tensor loss = muon.step([&] {
    muon.zero_grad();
    at::Tensor value = p.square().sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<double>(), before);
  EXPECT_LT(p.square().sum().item<double>(), before);
}

TEST(Muon, SchedulersReachEveryGroup) {
  Muon muon(muon_param_groups(toy_model(), MuonOptions(0.5), MuonOptions(0.25)));
  ::torch::optim::StepLR scheduler(muon, 1, 0.5);
  for (int t = 0; t < 2; ++t) scheduler.step();  // LibTorch's first step sets the starting rate
  EXPECT_EQ(muon.param_groups()[0].options().get_lr(), 0.25);
  EXPECT_EQ(muon.param_groups()[1].options().get_lr(), 0.125);
}

TEST(Muon, StepsWithoutWaiting) {
  NamedTensors model = toy_model();
  for (auto& [name, tensor] : model) set_gradient(tensor, normal(tensor.sizes(), 9));
  Muon muon(muon_param_groups(model));
  for (int t = 0; t < 2; ++t) EXPECT_EQ(testing::host_reads([&] { muon.step(); }), 0);
  EXPECT_GT(testing::host_reads([&] { (void)model[0].second.sum().item<double>(); }), 0);  // they would be counted
}

TEST(Muon, GroupsAddedLater) {
  at::Tensor w = leaf(normal({3, 4}, 1)), b = leaf(normal({4}, 2));
  Muon muon({w}, MuonOptions(0.1));
  EXPECT_THROW(muon.add_param_group(OptimizerParamGroup({b})), InvalidArgument);
  EXPECT_EQ(muon.param_groups().size(), 1U);
  muon.add_param_group(OptimizerParamGroup({b}, std::make_unique<MuonOptions>(adamw())));
  EXPECT_EQ(static_cast<const MuonOptions&>(muon.param_groups()[1].options()), adamw());
}

TEST(Muon, Misuse) {
  const auto says = [](const MuonOptions& options, const std::string& text) {
    const std::string message = message_of<InvalidArgument>([&] { Muon({leaf(normal({2, 2}, 1))}, options); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  const double nan = std::nan("");
  says(MuonOptions(-1), "lr = -1 must be finite and >= 0");
  says(MuonOptions(nan), "lr = nan");
  says(MuonOptions().weight_decay(-0.5), "weight_decay = -0.5");
  says(MuonOptions().momentum(1), "momentum = 1 must lie in [0, 1)");
  says(MuonOptions().ns_steps(100), "ns_steps = 100 must lie in [0, 99]");
  says(MuonOptions().ns_steps(-1), "ns_steps = -1");
  says(MuonOptions().ns_coefficients({1, nan, 0}), "ns_coefficients hold nan");
  says(MuonOptions().eps(-1), "eps = -1");
  says(MuonOptions().betas({1.5, 0.9}), "betas[0] = 1.5");
  says(MuonOptions().betas({0.5, -0.9}), "betas[1] = -0.9");
  says(MuonOptions().adamw_eps(-1), "adamw_eps = -1");
  says(MuonOptions().scale(static_cast<UpdateScale>(7)), "scale = 7 is none of original, match_rms, none");
  says(MuonOptions().ns_type(static_cast<OrthogonalizeType>(7)), "ns_type = 7 is none of auto, float32, bfloat16");
  says(MuonOptions().form(static_cast<MomentumForm>(7)), "momentum form = 7");

  EXPECT_NE(message_of<InvalidArgument>([] { Muon({leaf(normal({5}, 1))}); }).find("shape [5] is no matrix"),
            std::string::npos);
  std::vector<OptimizerParamGroup> foreign;
  foreign.emplace_back(std::vector<at::Tensor>{leaf(normal({2, 2}, 1))},
                       std::make_unique<::torch::optim::SGDOptions>(0.1));
  EXPECT_NE(message_of<InvalidArgument>([&] { Muon{foreign}; }).find("another optimizer"), std::string::npos);
}

TEST(Muon, NamesReadBack) {
  for (const UpdateScale scale : {UpdateScale::original, UpdateScale::match_rms, UpdateScale::none}) {
    EXPECT_EQ(parse_update_scale(to_string(scale)), scale);
  }
  for (const auto type : {OrthogonalizeType::automatic, OrthogonalizeType::float32, OrthogonalizeType::bfloat16}) {
    EXPECT_EQ(parse_orthogonalize_type(to_string(type)), type);
  }
  EXPECT_NE(message_of<InvalidArgument>([] { (void)parse_update_scale("rms"); }).find("original, match_rms, none"),
            std::string::npos);
}

}  // namespace
}  // namespace spectralclip::torch

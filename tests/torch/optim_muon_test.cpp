// SPDX-License-Identifier: Apache-2.0
// Muon against its formula in float64: singular values through an SVD and a scalar polynomial, not by products.
#include "spectralclip/torch/muon.h"

#include "spectralclip/error.h"
#include "spectralclip/torch/sixteen_bit.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::close;
using testing::distance;
using testing::epsilon;
using testing::leaf;
using testing::normal;
using testing::set_gradient;

constexpr int kMuonSteps = 4;

// sigma -> the polynomial, ns_steps times.
double through_polynomial(double x, const MuonOptions& options) {
  const auto [a, b, c] = options.ns_coefficients();
  for (int i = 0; i < options.ns_steps(); ++i) x = a * x + b * x * x * x + c * x * x * x * x * x;
  return x;
}

struct Reference {
  MuonOptions options;
  at::Tensor p;  // float64
  at::Tensor B = {};

  [[nodiscard]] double scale() const {
    const auto m = static_cast<double>(p.size(0)), n = static_cast<double>(p.numel()) / m;
    if (options.scale() == UpdateScale::original) return m > n ? std::sqrt(m / n) : 1.0;
    return options.scale() == UpdateScale::match_rms ? 0.2 * std::sqrt(m > n ? m : n) : 1.0;
  }

  void step(const at::Tensor& g) {
    const double beta = options.momentum(), weight = options.form() == MomentumForm::ema ? 1 - beta : 1;
    if (!B.defined()) B = at::zeros_like(g);
    B = beta * B + weight * g;
    const at::Tensor D = (options.nesterov() ? beta * B + weight * g : B).reshape({p.size(0), -1});
    const double size = std::max(testing::norm_of(D), options.eps());
    const at::Tensor O =
        testing::map_singular_values(D / size, [&](double x) { return through_polynomial(x, options); });
    p = p * (1 - options.lr() * options.weight_decay()) - options.lr() * scale() * O.reshape(p.sizes());
  }

  // Rounding of kMuonSteps steps. Newton-Schulz magnifies errors of its input (norm 1) at most a^5 = 485 times;
  // measured worst over the cases below: 0.12 of this.
  [[nodiscard]] double tolerance(at::ScalarType type) const {
    const double k = static_cast<double>(std::min(p.size(0), p.numel() / p.size(0)));
    const double magnified = std::pow(options.ns_coefficients()[0], static_cast<double>(options.ns_steps()));
    return kMuonSteps * epsilon(type) * (options.lr() * scale() * magnified * std::sqrt(k) + testing::norm_of(p));
  }
};

// Runs both for kMuonSteps on the same gradients, of size 1 as an entry.
struct TwinRun {
  at::Tensor parameter;
  Reference reference;

  TwinRun(const MuonOptions& options, at::IntArrayRef shape, at::ScalarType type)
      : parameter(leaf(normal(shape, 1, type))), reference{options, parameter.detach().to(at::kDouble)} {
    Muon muon({parameter}, options);
    for (int t = 0; t < kMuonSteps; ++t) {
      set_gradient(parameter, normal(shape, 10 + static_cast<std::uint64_t>(t), type));
      reference.step(parameter.grad().to(at::kDouble));
      muon.step();
    }
  }
};

// eps = 100 is above every momentum's norm, so that the forms of momentum, alike but for a factor, differ.
std::vector<std::pair<std::string, MuonOptions>> muon_settings() {
  const MuonOptions base = MuonOptions(0.1).eps(100);
  return {{"defaults", MuonOptions(0.1)},
          {"large eps", base},
          {"classic", MuonOptions(base).form(MomentumForm::classic)},
          {"no nesterov", MuonOptions(base).nesterov(false)},
          {"classic, no nesterov", MuonOptions(base).form(MomentumForm::classic).nesterov(false)},
          {"momentum", MuonOptions(base).momentum(0.5)},
          {"no momentum", MuonOptions(base).momentum(0)},
          {"match_rms", MuonOptions(base).scale(UpdateScale::match_rms)},
          {"no scale", MuonOptions(base).scale(UpdateScale::none)},
          {"weight decay", MuonOptions(base).weight_decay(0.5)},
          {"lr", MuonOptions(base).lr(0.03)},
          {"three steps", MuonOptions(base).ns_steps(3)},
          {"coefficients", MuonOptions(base).ns_coefficients({1.5, -0.5, 0})}};
}

TEST(Muon, EqualsItsFormula) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{9, 5}, {5, 9}, {7, 7}, {1, 6}, {6, 1}, {8, 3, 2, 2}}) {
      for (const auto& [name, options] : muon_settings()) {
        SCOPED_TRACE(name + ", axes " + std::to_string(shape.size()) + " first " + std::to_string(shape[0]));
        const TwinRun run(options, shape, type);
        EXPECT_TRUE(close(run.parameter, run.reference.p, run.reference.tolerance(type)));
      }
    }
  }
}

// The settings above are told apart by that tolerance: on a tall matrix all of them lead elsewhere.
TEST(Muon, EveryOptionMatters) {
  const auto all = muon_settings();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const TwinRun a(all[i].second, {9, 5}, at::kDouble), b(all[j].second, {9, 5}, at::kDouble);
      EXPECT_GT(distance(a.parameter, b.parameter), 1e6 * a.reference.tolerance(at::kDouble))
          << all[i].first << " and " << all[j].first;
    }
  }
}

// One step without momentum, decay and scale from 0 with lr 1: the parameter is minus the update.
at::Tensor update_of(const at::Tensor& gradient, OrthogonalizeType type) {
  at::Tensor parameter = leaf(at::zeros_like(gradient));
  set_gradient(parameter, gradient);
  const MuonOptions options =
      MuonOptions(1).weight_decay(0).momentum(0).nesterov(false).scale(UpdateScale::none).ns_type(type);
  Muon({parameter}, options).step();
  return parameter.detach().neg();
}

TEST(Muon, UpdateIsNearlyOrthogonal) {
  for (const OrthogonalizeType type : {OrthogonalizeType::float32, OrthogonalizeType::bfloat16}) {
    for (const std::pair<int, int>& shape : {std::pair{20, 33}, {33, 20}, {24, 24}}) {
      std::vector<double> sigma;
      for (int i = 0; i < std::min(shape.first, shape.second); ++i) sigma.push_back(100.0 / (1 + i));
      const at::Tensor G = testing::with_singular_values(shape.first, shape.second, sigma, 3).to(at::kFloat);
      const at::Tensor update = update_of(G, type);
      const at::Tensor values = at::linalg_svdvals(update.to(at::kDouble));
      EXPECT_LE(values.max().item<double>(), 1.3);
      EXPECT_GE(values.min().item<double>(), 0.6);
      // Same singular vectors: V U^T G is symmetric and its trace is the nuclear norm, up to the spread of the values.
      const double nuclear = at::linalg_svdvals(G.to(at::kDouble)).sum().item<double>();
      const double aligned = (update.to(at::kDouble) * G.to(at::kDouble)).sum().item<double>();
      EXPECT_GE(aligned, 0.6 * nuclear);
    }
  }
}

TEST(Muon, WorkTypes) {
  const at::Tensor G = normal({20, 30}, 5, at::kFloat);
  const at::Tensor single = update_of(G, OrthogonalizeType::float32);
  EXPECT_TRUE(at::equal(single, update_of(G, OrthogonalizeType::automatic)));  // on the CPU
  const at::Tensor half = update_of(G, OrthogonalizeType::bfloat16);
  EXPECT_EQ(half.scalar_type(), at::kFloat);
  // Each of five rounds stores 20 singular values of about 1 in 8 bits; measured 0.36 of this.
  EXPECT_TRUE(close(half, single, 5 * std::sqrt(20.0) * epsilon(at::kBFloat16)));
  if (sixteen_bit_failure().empty()) {
    EXPECT_GT(distance(half, single), 1000 * epsilon(at::kFloat));
  } else {
    EXPECT_TRUE(at::equal(half, single)) << "float32 takes the place of what this processor cannot multiply";
  }
  // float64 keeps its digits unless asked otherwise.
  const at::Tensor in_double = update_of(G.to(at::kDouble), OrthogonalizeType::automatic);
  EXPECT_GT(distance(in_double, update_of(G.to(at::kDouble), OrthogonalizeType::float32)), epsilon(at::kFloat) / 100);
}

// 16-bit parameters keep their type, and their buffers are not overwritten by the orthogonalisation.
TEST(Muon, SixteenBitParameters) {
  at::Tensor parameter = leaf(normal({6, 8}, 1, at::kBFloat16));
  const at::Tensor before = parameter.detach().clone(), G = normal({6, 8}, 2, at::kBFloat16);
  Muon muon({parameter}, MuonOptions(0.5).momentum(0.5).ns_type(OrthogonalizeType::bfloat16));
  set_gradient(parameter, G);
  muon.step();
  EXPECT_EQ(parameter.scalar_type(), at::kBFloat16);
  EXPECT_GT(distance(parameter, before), 0.5);
  EXPECT_TRUE(at::equal(parameter.grad(), G));
  const auto& state = static_cast<MuonParamState&>(*muon.state().at(parameter.unsafeGetTensorImpl()));
  EXPECT_TRUE(at::equal(state.momentum_buffer(), G * 0.5));
}

// A zero gradient is divided by eps, not by 0.
TEST(Muon, ZeroGradient) {
  at::Tensor parameter = leaf(normal({4, 3}, 1));
  const at::Tensor before = parameter.detach().clone();
  set_gradient(parameter, at::zeros({4, 3}, at::kDouble));
  Muon({parameter}, MuonOptions(0.1).weight_decay(0)).step();
  EXPECT_TRUE(at::equal(parameter.detach(), before));
}

}  // namespace
}  // namespace spectralclip::torch

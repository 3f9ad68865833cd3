// SPDX-License-Identifier: Apache-2.0
// The clippers that scale or clamp, against their formulas in float64; and what all of them share.
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

constexpr at::ScalarType kTypes[] = {at::kDouble, at::kFloat, at::kBFloat16};
constexpr GradientClip kElementary[] = {GradientClip::none, GradientClip::global_norm, GradientClip::layer_norm,
                                        GradientClip::agc, GradientClip::coordinate};

// Weights of size 1, gradients of sizes 0.1, 1 and 10, so that limits of size 1 bite on some of them only.
NamedTensors norm_model(at::ScalarType type) {
  NamedTensors parameters = {{"w", leaf(normal({6, 5}, 1, type))},
                             {"conv", leaf(normal({4, 3, 2, 2}, 2, type))},
                             {"b", leaf(normal({7}, 3, type))},
                             {"s", leaf(normal({}, 4, type))}};
  double size = 0.1;
  for (std::size_t i = 0; i < parameters.size(); ++i, size = size < 10 ? 10 * size : 0.1) {
    at::Tensor& parameter = parameters[i].second;
    set_gradient(parameter, (size * normal(parameter.sizes(), 10 + i)).to(type));
  }
  return parameters;
}

std::vector<at::Tensor> gradients(const NamedTensors& parameters) {  // copies, float64
  std::vector<at::Tensor> copies;
  for (const auto& [name, tensor] : parameters) copies.push_back(tensor.grad().to(at::kDouble).clone());
  return copies;
}

double total_norm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.square().sum().item<double>();
  return std::sqrt(sum);
}

GradientClipOptions options_of(GradientClip kind) {
  GradientClipOptions options;
  options.kind = kind;
  return options;
}

// Each gradient becomes expected(gradient, parameter, total norm); the norm before is returned. A result is a gradient
// times a factor that took some five roundings in its type; measured worst 0.24 of the tolerance.
using Formula = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, double)>;
void check(const GradientClipOptions& options, const Formula& formula) {
  for (const at::ScalarType type : kTypes) {
    SCOPED_TRACE(c10::toString(type));
    const NamedTensors parameters = norm_model(type);
    const std::vector<at::Tensor> before = gradients(parameters);
    const double total = total_norm(before);
    const at::Tensor returned = make_gradient_clipper(parameters, options)->before_step();
    EXPECT_EQ(returned.dim(), 0);
    EXPECT_NEAR(returned.item<double>(), total, 4 * epsilon(type) * total);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& parameter = parameters[i].second;
      const at::Tensor expected = formula(before[i], parameter.detach().to(at::kDouble), total);
      EXPECT_TRUE(close(parameter.grad(), expected, 4 * epsilon(type) * testing::norm_of(expected)))
          << parameters[i].first;
    }
  }
}

double coefficient(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

TEST(GradientClip, NoneOnlyMeasures) {
  check(options_of(GradientClip::none), [](const at::Tensor& g, const at::Tensor&, double) { return g; });
}

TEST(GradientClip, GlobalNorm) {
  for (const double max_norm : {0.0, 0.5, 3.0, 1e6, std::numeric_limits<double>::infinity()}) {
    GradientClipOptions options = options_of(GradientClip::global_norm);
    options.max_norm = max_norm;
    check(options,
          [=](const at::Tensor& g, const at::Tensor&, double total) { return g * coefficient(total, max_norm); });
  }
}

// Python divides by multiplying with a reciprocal, LibTorch's C++ divides: one rounding apart.
TEST(GradientClip, GlobalNormIsTorchs) {
  const NamedTensors ours = norm_model(at::kFloat), theirs = norm_model(at::kFloat);
  std::vector<at::Tensor> list;
  for (const auto& [name, tensor] : theirs) list.push_back(tensor);
  GradientClipOptions options = options_of(GradientClip::global_norm);
  options.max_norm = 0.3;
  const at::Tensor total = make_gradient_clipper(ours, options)->before_step();
  EXPECT_EQ(total.item<double>(), ::torch::nn::utils::clip_grad_norm_(list, 0.3));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const at::Tensor& expected = theirs[i].second.grad();
    EXPECT_TRUE(close(ours[i].second.grad(), expected, 2 * epsilon(at::kFloat) * testing::norm_of(expected)));
  }
}

TEST(GradientClip, LayerNorm) {
  for (const double max_norm : {0.0, 1.0, 5.0}) {
    GradientClipOptions options = options_of(GradientClip::layer_norm);
    options.max_norm = max_norm;
    check(options, [=](const at::Tensor& g, const at::Tensor&, double) {
      return g * coefficient(testing::norm_of(g), max_norm);
    });
  }
}

TEST(GradientClip, Coordinate) {
  GradientClipOptions options = options_of(GradientClip::coordinate);
  options.max_value = 0.25;  // a number that all types hold
  check(options, [](const at::Tensor& g, const at::Tensor&, double) {
    at::Tensor clamped = g.clone().flatten();
    for (std::int64_t i = 0; i < clamped.size(0); ++i) {
      const double value = clamped[i].item<double>();
      clamped[i] = value > 0.25 ? 0.25 : value < -0.25 ? -0.25 : value;
    }
    return clamped.reshape(g.sizes());
  });
}

at::Tensor agc_of_unit(const at::Tensor& g, const at::Tensor& p, double factor, double least) {
  const double limit = factor * std::max(testing::norm_of(p), least), size = testing::norm_of(g);
  return size < limit ? g : g * (limit / std::max(size, 1e-6));
}

TEST(GradientClip, AgcUnitWise) {
  for (const auto& [factor, least] : {std::pair{0.5, 1e-3}, {2.0, 1e-3}, {0.5, 3.0}}) {
    GradientClipOptions options = options_of(GradientClip::agc);
    options.agc_factor = factor;
    options.agc_epsilon = least;
    check(options, [f = factor, e = least](const at::Tensor& g, const at::Tensor& p, double) {
      if (g.dim() <= 1) return agc_of_unit(g, p, f, e);
      std::vector<at::Tensor> units;
      for (std::int64_t i = 0; i < g.size(0); ++i) units.push_back(agc_of_unit(g[i], p[i], f, e));
      return at::stack(units);
    });
  }
}

TEST(GradientClip, AbsentAndTiedGradients) {
  for (const GradientClip kind : kElementary) {
    NamedTensors parameters = norm_model(at::kDouble);
    parameters[0].second.mutable_grad() = at::Tensor();
    parameters.emplace_back("tied", parameters[1].second);
    GradientClipOptions options = options_of(kind);
    options.agc_factor = options.max_norm = options.max_value = 0.5;
    NamedTensors once = norm_model(at::kDouble);
    once.erase(once.begin());
    const at::Tensor total = make_gradient_clipper(parameters, options)->before_step();
    EXPECT_EQ(total.item<double>(), make_gradient_clipper(once, options)->before_step().item<double>());
    EXPECT_FALSE(parameters[0].second.grad().defined());
    EXPECT_TRUE(at::equal(parameters[1].second.grad(), once[0].second.grad())) << to_string(kind);
  }
}

TEST(GradientClip, NoGradientsAtAll) {
  for (const GradientClip kind :
       {GradientClip::none, GradientClip::global_norm, GradientClip::layer_norm, GradientClip::agc,
        GradientClip::coordinate, GradientClip::soft, GradientClip::soft_update}) {
    for (const NamedTensors& parameters : {NamedTensors{}, NamedTensors{{"w", leaf(normal({2, 2}, 1))}}}) {
      const auto clipper = make_gradient_clipper(parameters, options_of(kind));
      const at::Tensor total = clipper->before_step();
      EXPECT_TRUE(total.is_cpu());
      EXPECT_EQ(total.dim(), 0);
      EXPECT_EQ(total.item<float>(), 0.0F);
      EXPECT_NO_THROW(clipper->after_step(0.1));
    }
  }
}

// As in torch: an infinite norm makes NaN of what is infinite and 0 of the rest, a NaN spreads to all gradients …
TEST(GradientClip, NonFiniteGradients) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {infinity, std::nan("")}) {
    NamedTensors parameters = norm_model(at::kDouble);
    parameters[0].second.grad()[0][0] = bad;
    EXPECT_FALSE(std::isfinite(
        make_gradient_clipper(parameters, options_of(GradientClip::global_norm))->before_step().item<double>()));
    EXPECT_TRUE(std::isnan(parameters[0].second.grad()[0][0].item<double>()));
    const double elsewhere = parameters[1].second.grad()[0][0][0][0].item<double>();
    EXPECT_TRUE(std::isnan(bad) ? std::isnan(elsewhere) : elsewhere == 0);
  }
  // … and stays within its tensor, its unit or its entry for the others.
  for (const GradientClip kind : {GradientClip::layer_norm, GradientClip::agc, GradientClip::coordinate}) {
    NamedTensors parameters = norm_model(at::kDouble), finite = norm_model(at::kDouble);
    parameters[0].second.grad()[0][0] = std::nan("");
    EXPECT_TRUE(std::isnan(make_gradient_clipper(parameters, options_of(kind))->before_step().item<double>()));
    (void)make_gradient_clipper(finite, options_of(kind))->before_step();
    EXPECT_TRUE(std::isnan(parameters[0].second.grad()[0][0].item<double>()));
    EXPECT_TRUE(at::equal(parameters[1].second.grad(), finite[1].second.grad()));
    const bool row_by_row = kind != GradientClip::layer_norm;
    EXPECT_EQ(at::equal(parameters[0].second.grad()[1], finite[0].second.grad()[1]), row_by_row);
  }
}

TEST(GradientClip, NeverWaits) {
  for (const GradientClip kind :
       {GradientClip::none, GradientClip::global_norm, GradientClip::layer_norm, GradientClip::agc,
        GradientClip::coordinate, GradientClip::soft, GradientClip::soft_update}) {
    GradientClipOptions options = options_of(kind);
    options.spectral.backend = Backend::aten;  // what other devices get
    const NamedTensors parameters = norm_model(at::kFloat);
    const auto clipper = make_gradient_clipper(parameters, options);
    EXPECT_EQ(testing::host_reads([&] { (void)clipper->before_step(); }), 0) << to_string(kind);
    EXPECT_EQ(testing::host_reads([&] { clipper->after_step(0.1); }), 0) << to_string(kind);
    EXPECT_GT(testing::host_reads([&] { (void)clipper->before_step().item<double>(); }), 0);  // it would be counted
  }
}

TEST(GradientClip, Misuse) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto says = [](double GradientClipOptions::*field, double value, const std::string& text) {
    GradientClipOptions options = options_of(GradientClip::none);
    options.*field = value;
    const std::string message = message_of<InvalidArgument>([&] { (void)make_gradient_clipper({}, options); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says(&GradientClipOptions::max_norm, -1, "max_norm = -1 must lie in [0, infinity]");
  says(&GradientClipOptions::max_norm, nan, "max_norm = nan");
  says(&GradientClipOptions::agc_factor, 0, "agc_factor = 0 must be finite and > 0");
  says(&GradientClipOptions::agc_factor, infinity, "agc_factor = inf");
  says(&GradientClipOptions::agc_epsilon, -1, "agc_epsilon = -1 must be finite and >= 0");
  says(&GradientClipOptions::max_value, -2, "max_value = -2 must lie in [0, infinity]");
  says(&GradientClipOptions::soft_scale, 0, "soft_scale = 0 must be finite and > 0");
  GradientClipOptions options = options_of(static_cast<GradientClip>(9));
  EXPECT_NE(message_of<InvalidArgument>([&] { validate(options); }).find("gradient clip = 9"), std::string::npos);
  options = options_of(GradientClip::none);
  options.spectral.threshold.decay = 2;
  EXPECT_NE(message_of<InvalidArgument>([&] { validate(options); }).find("decay = 2"), std::string::npos);
  const auto clipper = make_gradient_clipper({}, options_of(GradientClip::none));
  EXPECT_TRUE(clipper->serialize().empty());
  EXPECT_EQ(clipper->spectral(), nullptr);
  EXPECT_NO_THROW(clipper->deserialize({}));
  EXPECT_THROW(clipper->deserialize(std::vector<std::uint8_t>{1, 2}), StateFileError);
}

TEST(GradientClip, NamesReadBack) {
  for (int i = 0; i < 8; ++i) {
    const auto kind = static_cast<GradientClip>(i);
    EXPECT_EQ(parse_gradient_clip(to_string(kind)), kind);
  }
  const std::string message = message_of<InvalidArgument>([] { (void)parse_gradient_clip("norm"); });
  EXPECT_NE(message.find("\"norm\" is none of none, global_norm, layer_norm, agc, coordinate, spectral, soft, "
                         "soft_update"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace spectralclip::torch

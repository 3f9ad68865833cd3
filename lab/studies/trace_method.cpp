// SPDX-License-Identifier: Apache-2.0
#include "studies/trace_method.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "noise/draws.h"
#include "require.h"
#include "threshold/state_check.h"

namespace spectralclip::lab {
namespace {

FirstStep parse_first_step(const std::string& key, const std::string& text) {
  SPECTRALCLIP_REQUIRE(text == "zero" || text == "unclipped", key, " = \"", text, "\" is neither zero nor unclipped");
  return text == "zero" ? FirstStep::zero : FirstStep::unclipped;
}

Interpolation parse_interpolation(const std::string& text) {
  SPECTRALCLIP_REQUIRE(text == "lower" || text == "linear", "trace.interpolation = \"", text,
                       "\" is neither lower nor linear");
  return text == "lower" ? Interpolation::lower : Interpolation::linear;
}

TraceMethod make_method(std::string name, const ThresholdOptions& options, std::int64_t n) {
  TraceMethod method;
  method.name = std::move(name);
  method.options = options;
  method.state = make_threshold_state(options);
  method.X.assign(static_cast<std::size_t>(n * n), 0.0);
  return method;
}

double squared_norm(std::span<const double> x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

}  // namespace

void draw_trace_sample(const TraceConfig& config, std::uint64_t seed, std::int64_t step, TraceSample& sample) {
  Draws draws(seed, "trace.sample", step);
  sample.term = draws.below(config.terms);
  sample.bias.resize(config.bias == "monte_carlo" ? static_cast<std::size_t>(config.samples) : 0);
  for (std::int64_t& term : sample.bias) term = draws.below(config.terms);
}

std::vector<TraceMethod> make_trace_methods(const TraceConfig& config) {
  std::vector<TraceMethod> methods;
  ThresholdOptions options{.kind = ThresholdKind::ema, .decay = config.decay, .observe_zeros = true};
  options.first_step = parse_first_step("trace.first_step", config.first_step);
  methods.push_back(make_method("EMA", options, config.n));
  methods.back().eps = config.ema_eps;

  options = {.kind = ThresholdKind::quantile, .quantile = config.quantile, .window = config.window};
  options.first_step = parse_first_step("trace.quantile_first_step", config.quantile_first_step);
  options.interpolation = parse_interpolation(config.interpolation);
  options.observe_zeros = true;
  methods.push_back(make_method("Quantile", options, config.n));

  for (const double tau : config.taus) {
    options = {.kind = ThresholdKind::constant, .tau = tau};
    const std::string name = "constant_tau_" + python_float(tau);
    SPECTRALCLIP_REQUIRE(std::none_of(methods.begin(), methods.end(), [&](const auto& m) { return m.name == name; }),
                         "trace.taus has ", tau, " twice");
    methods.push_back(make_method(name, options, config.n));
  }
  return methods;
}

// grad f - E C_tau(G) = 1/N sum_i (G_i - C_tau(G_i)): what clipping removes, so no difference of nearly equal numbers.
double bias_by_expectation(const TraceProblem& problem, std::span<const double> X, double tau, std::span<double> bias) {
  std::fill(bias.begin(), bias.end(), 0.0);
  const double weight = 1 / static_cast<double>(problem.terms);
  for (std::int64_t i = 0; i < problem.terms; ++i) add_removed(problem, i, slope(problem, i, X), tau, weight, bias);
  return squared_norm(bias);
}

double bias_by_sampling(const TraceProblem& problem, std::span<const double> X, double tau,
                        std::span<const std::int64_t> terms, std::span<double> bias) {
  std::fill(bias.begin(), bias.end(), 0.0);
  constexpr double kUnclipped = std::numeric_limits<double>::infinity();
  const double share = 1 / static_cast<double>(problem.terms);
  for (std::int64_t i = 0; i < problem.terms; ++i) {
    add_clipped(problem, i, slope(problem, i, X), kUnclipped, share, bias);
  }
  const double weight = -1 / static_cast<double>(terms.size());
  for (const std::int64_t i : terms) add_clipped(problem, i, slope(problem, i, X), tau, weight, bias);
  return squared_norm(bias);
}

void put_method(ByteWriter& out, const TraceMethod& method) {
  out.put(std::string_view(method.name));
  out.put(method.state.observed);
  out.put(method.state.average);
  out.put(static_cast<std::uint64_t>(method.state.window.size()));
  for (const double value : method.state.window) out.put(value);
  out.put(static_cast<std::uint64_t>(method.X.size()));
  for (const double value : method.X) out.put(value);
  out.put(method.delta_sum);
  out.put(method.recent_sum);
}

void read_method(ByteReader& in, TraceMethod& method) {
  const std::string name = in.text("method");
  if (name != method.name) {
    throw StateFileError(fmt::format("state has method \"{}\" where this run has \"{}\"", name, method.name));
  }
  method.state.observed = in.integer<std::int64_t>("observed");
  method.state.average = in.float64("average");
  method.state.window.resize(in.count(sizeof(double), "window"));
  for (double& value : method.state.window) value = in.float64("window");
  method.state.sorted = method.state.window;
  const auto filled =
      std::clamp<std::int64_t>(method.state.observed, 0, static_cast<std::int64_t>(method.state.sorted.size()));
  std::sort(method.state.sorted.begin(), method.state.sorted.begin() + filled);
  const std::size_t entries = in.count(sizeof(double), "X");
  if (!fits(method.options, method.state) || entries != method.X.size()) {
    throw StateFileError(fmt::format("state of method \"{}\" does not fit this run's threshold or size", name));
  }
  for (double& value : method.X) value = in.float64("X");
  method.delta_sum = in.float64("sum of Delta");
  method.recent_sum = in.float64("sum of recent Delta");
}

std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace spectralclip::lab

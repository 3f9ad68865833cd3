// SPDX-License-Identifier: Apache-2.0
#include "studies/trace_regression.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "require.h"
#include "studies/trace_method.h"

namespace spectralclip::lab {
namespace {

constexpr const char* kSection = "trace";
constexpr std::int64_t kFirstSteps = 20;  // are all logged: curves are drawn against log k

class TraceRegression final : public Experiment {
 public:
  explicit TraceRegression(const Config& config);

  [[nodiscard]] std::int64_t steps() const override { return config_.train.steps; }
  void step(std::int64_t step, Recorder& recorder) override;
  [[nodiscard]] std::pair<std::string, double> headline() const override;
  void save(StateWriter& state) const override;
  void load(const StateReader& state) override;
  [[nodiscard]] nlohmann::ordered_json results() override;

 private:
  void advance(TraceMethod& method, std::int64_t step);
  [[nodiscard]] double bias_of(const TraceMethod& method, double tau);
  [[nodiscard]] double average_delta(const TraceMethod& method) const;
  [[nodiscard]] nlohmann::ordered_json averages() const;
  [[nodiscard]] std::int64_t recent_steps() const { return std::max<std::int64_t>(1, steps() / 10); }

  Config config_;
  TraceProblem problem_;
  std::vector<TraceMethod> methods_;
  TraceSample sample_;
  std::vector<double> scratch_;  // n x n
  double lr_;
  std::int64_t done_ = 0;
};

TraceRegression::TraceRegression(const Config& config)
    : config_(config),
      problem_(make_trace_problem(config.trace, config.seed)),
      methods_(make_trace_methods(config.trace)),
      scratch_(static_cast<std::size_t>(config.trace.n * config.trace.n)),
      lr_(config.trace.lr_scale / problem_.L) {
  const std::string& bias = config.trace.bias;
  SPECTRALCLIP_REQUIRE(bias == "expectation" || bias == "monte_carlo", "trace.bias = \"", bias,
                       "\" is neither expectation nor monte_carlo");
  SPECTRALCLIP_REQUIRE(bias == "expectation" || config.trace.samples >= 1, "trace.samples = ", config.trace.samples,
                       " is below 1");
  SPECTRALCLIP_REQUIRE(config.record.log_every >= 1, "record.log_every = ", config.record.log_every, " is below 1");
  SPECTRALCLIP_REQUIRE(config.train.steps >= 1, "train.steps = ", config.train.steps, " is below 1");
}

double TraceRegression::bias_of(const TraceMethod& method, double tau) {
  if (sample_.bias.empty()) return bias_by_expectation(problem_, method.X, tau, scratch_);
  return bias_by_sampling(problem_, method.X, tau, sample_.bias, scratch_);
}

void TraceRegression::advance(TraceMethod& method, std::int64_t step) {
  const double tau = threshold(method.options, method.state);
  const double delta = bias_of(method, tau);
  if (!std::isfinite(delta)) throw Diverged(method.name + ": the bias is not finite at step " + std::to_string(step));
  method.delta_sum += delta;
  if (step > steps() - recent_steps()) method.recent_sum += delta;
  const double c = slope(problem_, sample_.term, method.X);
  const double sigma_max = add_clipped(problem_, sample_.term, c, tau, -lr_, method.X);
  (void)observe(method.options, method.state, sigma_max + method.eps);
}

void TraceRegression::step(std::int64_t step, Recorder& recorder) {
  draw_trace_sample(config_.trace, config_.seed, step, sample_);
  for (TraceMethod& method : methods_) advance(method, step);
  done_ = step;
  if (step % config_.record.log_every == 0 || step <= kFirstSteps || step == steps()) {
    recorder.metrics(step, averages());
  }
}

double TraceRegression::average_delta(const TraceMethod& method) const {
  return method.delta_sum / static_cast<double>(std::max<std::int64_t>(1, done_));
}

nlohmann::ordered_json TraceRegression::averages() const {
  nlohmann::ordered_json values;
  for (const TraceMethod& method : methods_) values[method.name] = average_delta(method);
  return values;
}

std::pair<std::string, double> TraceRegression::headline() const {
  return {methods_.front().name, average_delta(methods_.front())};
}

nlohmann::ordered_json TraceRegression::results() {
  nlohmann::ordered_json values = averages();
  for (const TraceMethod& method : methods_) {
    values[method.name + "_last_tenth"] = method.recent_sum / static_cast<double>(recent_steps());
  }
  return values;
}

void TraceRegression::save(StateWriter& state) const {
  ByteWriter out;
  out.put(steps());
  out.put(done_);
  for (const TraceMethod& method : methods_) put_method(out, method);
  state.put(kSection, out.bytes());
}

// Into copies first: a state that is refused leaves the run as it was.
void TraceRegression::load(const StateReader& state) {
  const Bytes bytes = state.bytes(kSection);
  ByteReader in(bytes);
  const auto planned = in.integer<std::int64_t>("steps");
  if (planned != steps()) {  // the last tenth would be another one
    throw StateFileError("state is of a run of " + std::to_string(planned) + " steps, this one has " +
                         std::to_string(steps()));
  }
  const auto done = in.integer<std::int64_t>("steps done");
  if (done < 0 || done > planned) throw StateFileError("state has " + std::to_string(done) + " steps done");
  std::vector<TraceMethod> methods = methods_;
  for (TraceMethod& method : methods) read_method(in, method);
  if (in.remaining() != 0) throw StateFileError("state has bytes beyond its last method");
  methods_ = std::move(methods);
  done_ = done;
}

}  // namespace

std::unique_ptr<Experiment> make_trace_regression(const Config& config) {
  return std::make_unique<TraceRegression>(config);
}

}  // namespace spectralclip::lab

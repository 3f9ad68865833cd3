// SPDX-License-Identifier: Apache-2.0
// One way of choosing tau on the trace-regression problem: its iterate, its threshold and the bias it has gathered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clipper/byte_stream.h"
#include "spectralclip/threshold.h"
#include "studies/trace_problem.h"

namespace spectralclip::lab {

// The random indices of one step, shared by all methods: a paired comparison.
struct TraceSample {
  std::int64_t term = 0;                // whose gradient the step takes
  std::vector<std::int64_t> bias = {};  // monte_carlo: whose clipped gradients estimate the expectation
};
void draw_trace_sample(const TraceConfig& config, std::uint64_t seed, std::int64_t step, TraceSample& sample);

struct TraceMethod {
  std::string name;  // EMA, Quantile, constant_tau_0.05, …
  ThresholdOptions options;
  double eps = 0;  // added to what is observed
  ThresholdState state;
  std::vector<double> X;  // n x n
  double delta_sum = 0;   // of Delta_k over all steps …
  double recent_sum = 0;  // … and over the last tenth of the run
};

// EMA, Quantile and one per constant tau, in the order of the published script.
[[nodiscard]] std::vector<TraceMethod> make_trace_methods(const TraceConfig& config);

// Delta at the present X for threshold tau. bias: n x n scratch.
[[nodiscard]] double bias_by_expectation(const TraceProblem& problem, std::span<const double> X, double tau,
                                         std::span<double> bias);
[[nodiscard]] double bias_by_sampling(const TraceProblem& problem, std::span<const double> X, double tau,
                                      std::span<const std::int64_t> terms, std::span<double> bias);

void put_method(ByteWriter& out, const TraceMethod& method);
// Throws StateFileError unless the saved state fits the method.
void read_method(ByteReader& in, TraceMethod& method);

// As Python's str(float) writes it: 0.05, 1.0, 1e-05.
[[nodiscard]] std::string python_float(double value);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Sequences that behave as gradients do: a few leading directions that turn slowly, a noise bulk, steps of different
// loudness (quiet ones among them), and now and then a rank-one spike with a heavy-tailed strength in a new direction.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <random>
#include <vector>

namespace spectralclip::testing {

struct SequenceOptions {
  Eigen::Index rows = 200;
  Eigen::Index cols = 120;
  Eigen::VectorXd signal = Eigen::Vector4d(1, 0.6, 0.4, 0.25);  // leading singular values at loudness 1
  double drift = 0.05;        // sine of the angle by which each leading vector turns in a step
  double bulk = 0.1;          // largest singular value of the noise, about
  double quiet_share = 0.3;   // share of steps at a third of the usual loudness
  int spike_every = 10;       // 0: never
  double spike_strength = 3;  // times signal[0], at least; Pareto with exponent 1.5 above it
  std::uint64_t seed = 1;
};

class GradientSequence {
 public:
  explicit GradientSequence(const SequenceOptions& options);
  [[nodiscard]] Eigen::MatrixXd next();

 private:
  SequenceOptions options_;
  std::mt19937_64 random_;
  Eigen::MatrixXd U_;
  Eigen::MatrixXd V_;
  int step_ = 0;
};

// strength * u v^T with u, v random unit vectors.
[[nodiscard]] Eigen::MatrixXd random_rank_one(Eigen::Index rows, Eigen::Index cols, double strength,
                                              std::mt19937_64& random);
// >= 1, P(x > t) = t^-exponent.
[[nodiscard]] double pareto(double exponent, std::mt19937_64& random);

// The same matrices with a spike of `strength` (or more, heavy-tailed) times ||G||_2 added in every `every`-th step.
[[nodiscard]] std::vector<Eigen::MatrixXd> with_spikes(std::vector<Eigen::MatrixXd> sequence, int every,
                                                       double strength, std::uint64_t seed);

}  // namespace spectralclip::testing

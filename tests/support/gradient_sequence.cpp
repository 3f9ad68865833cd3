// SPDX-License-Identifier: Apache-2.0
#include "support/gradient_sequence.h"

#include <cmath>

#include "support/factorizations.h"
#include "support/oracle.h"
#include "support/reference.h"

namespace spectralclip::testing {
namespace {

constexpr double kTailExponent = 1.5;  // finite mean, infinite variance: the paper's noise

// Each column moves by about `drift` in a random direction; then all are made orthonormal again.
void turn(Eigen::MatrixXd& basis, double drift, std::mt19937_64& random) {
  const double length = std::sqrt(static_cast<double>(basis.rows()));
  const Eigen::MatrixXd moved = basis + drift / length * gaussian(basis.rows(), basis.cols(), random);
  const Eigen::MatrixXd Q = orthonormal_basis(moved);
  for (Eigen::Index j = 0; j < Q.cols(); ++j) basis.col(j) = Q.col(j) * (Q.col(j).dot(moved.col(j)) < 0 ? -1 : 1);
}

}  // namespace

GradientSequence::GradientSequence(const SequenceOptions& options)
    : options_(options),
      random_(options.seed),
      U_(random_basis(options.rows, options.signal.size(), random_)),
      V_(random_basis(options.cols, options.signal.size(), random_)) {}

Eigen::MatrixXd GradientSequence::next() {
  const SequenceOptions& o = options_;
  turn(U_, o.drift, random_);
  turn(V_, o.drift, random_);
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  const double loudness = (uniform(random_) < o.quiet_share ? 1.0 / 3 : 1.0) * std::exp(0.2 * normal(random_));
  const double noise = o.bulk / (std::sqrt(static_cast<double>(o.rows)) + std::sqrt(static_cast<double>(o.cols)));
  const Eigen::VectorXd wobble = 1 + 0.1 * gaussian(o.signal.size(), 1, random_).array();
  Eigen::MatrixXd G = U_ * o.signal.cwiseProduct(wobble).asDiagonal() * V_.transpose();
  G = loudness * (G + noise * gaussian(o.rows, o.cols, random_));
  ++step_;
  if (o.spike_every > 0 && step_ % o.spike_every == 0) {
    const double strength = o.spike_strength * o.signal[0] * pareto(kTailExponent, random_);
    G += random_rank_one(o.rows, o.cols, strength, random_);
  }
  return G;
}

Eigen::MatrixXd random_rank_one(Eigen::Index rows, Eigen::Index cols, double strength, std::mt19937_64& random) {
  const Eigen::VectorXd u = gaussian(rows, 1, random).normalized();
  const Eigen::VectorXd v = gaussian(cols, 1, random).normalized();
  return strength * u * v.transpose();
}

double pareto(double exponent, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  return std::pow(1 - uniform(random), -1 / exponent);
}

std::vector<Eigen::MatrixXd> with_spikes(std::vector<Eigen::MatrixXd> sequence, int every, double strength,
                                         std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(every) != 0) continue;
    Eigen::MatrixXd& G = sequence[i];
    const double size = strength * pareto(kTailExponent, random) * sigma_max_from_below(G);
    G += random_rank_one(G.rows(), G.cols(), size, random);
  }
  return sequence;
}

}  // namespace spectralclip::testing

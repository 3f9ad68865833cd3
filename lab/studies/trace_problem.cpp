// SPDX-License-Identifier: Apache-2.0
#include "studies/trace_problem.h"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "noise/draws.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

using Eigen::MatrixXd;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void require_sizes(const TraceConfig& config) {
  SPECTRALCLIP_REQUIRE(config.n >= 1 && config.n <= 64, "trace.n = ", config.n, " is not in [1, 64]");
  SPECTRALCLIP_REQUIRE(config.terms >= 1, "trace.terms = ", config.terms, " is below 1");
  SPECTRALCLIP_REQUIRE(config.sigma >= 0, "trace.sigma = ", config.sigma, " is below 0");
}

// Orthogonal factor of a Gaussian matrix, as rows.
MatrixXd random_rotation(std::int64_t n, Draws& draws) {
  MatrixXd gaussian(n, n);
  draws.fill_normal(std::span(gaussian.data(), at(n * n)));
  return Eigen::HouseholderQR<MatrixXd>(gaussian).householderQ() * MatrixXd::Identity(n, n);
}

// out += factor * q q^T
void add_outer(double factor, std::span<const double> q, std::span<double> out) {
  double* entry = out.data();
  for (const double left : q) {
    const double scaled = factor * left;
    for (const double right : q) *entry++ += scaled * right;
  }
}

void add_scaled(double factor, std::span<const double> from, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * from[i];
}

void draw_term(TraceProblem& p, std::int64_t i, Draws& draws) {
  const MatrixXd Q = random_rotation(p.n, draws);
  const std::span<double> e = std::span(p.e).subspan(at(i * p.n), at(p.n));
  for (double& value : e) value = 0.5 + draws.uniform();
  std::sort(e.begin(), e.end(), std::greater<>());
  const std::span<double> A = std::span(p.A).subspan(at(i * p.n * p.n), at(p.n * p.n));
  for (std::int64_t j = 0; j < p.n; ++j) {
    for (std::int64_t k = 0; k < p.n; ++k) p.Q[at((i * p.n + j) * p.n + k)] = Q(j, k);
    add_outer(e[at(j)], p.direction(i, j), A);
  }
}

std::int64_t count_above(std::span<const double> e, double size, double tau) {
  std::int64_t count = 0;  // e is in descending order
  while (count < static_cast<std::int64_t>(e.size()) && size * e[at(count)] > tau) ++count;
  return count;
}

}  // namespace

TraceProblem make_trace_problem(const TraceConfig& config, std::uint64_t seed) {
  require_sizes(config);
  TraceProblem p;
  p.n = config.n;
  p.terms = config.terms;
  p.A.assign(at(p.terms * p.n * p.n), 0.0);
  p.Q.assign(p.A.size(), 0.0);
  p.e.assign(at(p.terms * p.n), 0.0);
  Draws truth(seed, "trace.truth");
  std::vector<double> X_true(at(p.n * p.n));
  truth.fill_normal(std::span(X_true));
  for (std::int64_t i = 0; i < p.terms; ++i) {
    Draws draws(seed, "trace.term", i);
    draw_term(p, i, draws);
    p.b.push_back(dot(p.matrix(i), X_true) + config.sigma * truth.normal());
    p.L += 2 * dot(p.matrix(i), p.matrix(i)) / static_cast<double>(p.terms);
  }
  return p;
}

double slope(const TraceProblem& problem, std::int64_t i, std::span<const double> X) {
  return 2 * (dot(problem.matrix(i), X) - problem.b[at(i)]);
}

double add_clipped(const TraceProblem& problem, std::int64_t i, double c, double tau, double weight,
                   std::span<double> out) {
  const std::span<const double> e = problem.eigenvalues(i);
  if (count_above(e, std::abs(c), tau) == problem.n) {  // all of them: C_tau(G) = +-tau Q^T Q = +-tau I
    for (std::int64_t j = 0; j < problem.n; ++j) out[at(j * (problem.n + 1))] += weight * std::copysign(tau, c);
  } else {
    add_scaled(weight * c, problem.matrix(i), out);
    add_removed(problem, i, c, tau, -weight, out);
  }
  return std::abs(c) * e[0];
}

void add_removed(const TraceProblem& problem, std::int64_t i, double c, double tau, double weight,
                 std::span<double> out) {
  const std::span<const double> e = problem.eigenvalues(i);
  const std::int64_t clipped = count_above(e, std::abs(c), tau);
  for (std::int64_t j = 0; j < clipped; ++j) {
    add_outer(weight * std::copysign(std::abs(c) * e[at(j)] - tau, c), problem.direction(i, j), out);
  }
}

}  // namespace spectralclip::lab

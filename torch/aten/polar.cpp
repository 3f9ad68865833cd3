// SPDX-License-Identifier: Apache-2.0
// Minimax quintics for each step's interval, as in Amsel, Persson, Musco, Gower, The Polar Express (2025), here scaled
// so that values stay in (0, 1]. The lower end of the interval is a number we follow beside the matrices. Stability:
// the best quintic of [l, 1] with l -> 0 has slope 4.26 but maps some values near 1 to about 4 l, where rounding swamps
// their vectors. kGentle replaces l by 0.1 at least: slope 3.86, and nothing that was above 0.1 falls below 0.18.
// (Cubics, as the core uses, grow by 2.55 for two products, quintics by 3.86 for three; but only two of the three have
// the long side, so on wide matrices quintics cost a quarter less.)
#include "aten/polar.h"
#include "constants.h"

#include <array>
#include <cmath>
#include <utility>

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

constexpr double kGentle = 0.1;
// From here plain steps, which turn an error e into 5/2 e^3: 1e-2, 2.5e-6, 4e-17.
constexpr double kAlmostOne = 0.99;
constexpr int kPlainSteps = 2;
constexpr Quintic kPlain = {15.0 / 8, -10.0 / 8, 3.0 / 8};  // 1, with two derivatives zero, at 1

using Row = std::array<double, 5>;  // four coefficients and the right-hand side

// Gauss-Jordan with partial pivoting.
std::array<double, 4> solve(std::array<Row, 4> rows) {
  for (std::size_t j = 0; j < 4; ++j) {
    std::size_t best = j;
    for (std::size_t i = j + 1; i < 4; ++i) {
      if (std::abs(rows[i][j]) > std::abs(rows[best][j])) best = i;
    }
    std::swap(rows[j], rows[best]);
    for (std::size_t i = 0; i < 4; ++i) {
      const double factor = rows[i][j] / rows[j][j];
      for (std::size_t c = j; i != j && c < 5; ++c) rows[i][c] -= factor * rows[j][c];
    }
  }
  return {rows[0][4] / rows[0][0], rows[1][4] / rows[1][1], rows[2][4] / rows[2][2], rows[3][4] / rows[3][3]};
}

// a x + b x^3 + c x^5 + sign E = 1
Row alternation(double x, double sign) {
  const double cube = x * x * x;
  return {x, cube, cube * x * x, sign, 1};
}

}  // namespace

// Remez: 1 - p alternates on l, its two extrema q < r and 1.
Quintic best_quintic(double lower) {
  double q = (3 * lower + 1) / 4;
  double r = (lower + 3) / 4;
  Quintic p{};
  double error = 0;
  for (int i = 0; i < 50; ++i) {
    const auto [a, b, c, E] = solve({alternation(lower, 1), alternation(q, -1), alternation(r, 1), alternation(1, -1)});
    p = {a, b, c};
    const double root = std::sqrt(9 * b * b - 20 * a * c);  // p' = a + 3 b x^2 + 5 c x^4
    q = std::sqrt((-3 * b - root) / (10 * c));
    r = std::sqrt((-3 * b + root) / (10 * c));
    if (std::abs(E - error) <= kEps) break;
    error = E;
  }
  const double scale = 1 / (1 + error);
  return {p.a * scale, p.b * scale, p.c * scale};
}

std::vector<Quintic> polar_chain(double lower) {
  std::vector<Quintic> chain;
  while (lower < kAlmostOne) {
    const double from = std::max(lower, kGentle);
    const Quintic p = best_quintic(from);
    chain.push_back(p);
    lower = std::min(p(lower), p(from));  // p grows up to `from`, and beyond it is never below p(from)
  }
  chain.insert(chain.end(), kPlainSteps, kPlain);
  return chain;
}

Tensor polar_factor(Tensor X, const std::vector<Quintic>& chain) {
  for (const Quintic& p : chain) {
    const Tensor A = at::bmm(X, X.transpose(1, 2));
    X = at::baddbmm(X, at::baddbmm(A, A, A, p.b, p.c), X, p.a, 1);
  }
  return X;
}

EigenvalueBounds bound_largest_eigenvalue(const Tensor& A) {
  constexpr int kSquarings = 25;  // r^(2^-25): 2e-7 for r = 1000 where there is no gap at all
  const auto trace = [](const Tensor& B) { return B.diagonal(0, 1, 2).sum(1); };
  const auto unit = [&](const Tensor& B) {
    const Tensor t = trace(B);
    return B / at::where(t > 0, t, 1.0).view({-1, 1, 1});
  };
  Tensor logarithm = at::log(trace(A));
  Tensor B = unit(A);
  Tensor low = at::zeros_like(logarithm);
  double p = 1;
  for (int k = 0; k <= kSquarings; ++k, p *= 2) {
    const Tensor log_square = at::log(B.square().sum({1, 2}));
    low = at::maximum(low, at::exp(logarithm + log_square / p));
    if (k == kSquarings) break;
    B = unit(at::bmm(B, B.transpose(1, 2)));
    logarithm = logarithm + log_square / (2 * p);
  }
  const double rounding = 4 * kEps * std::sqrt(static_cast<double>(A.size(1)));
  return {low, at::maximum(low, at::exp(logarithm)) * (1 + rounding)};
}

}  // namespace spectralclip::torch::aten

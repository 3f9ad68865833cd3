// SPDX-License-Identifier: Apache-2.0
#include "aten/small_factors.h"

#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

constexpr double kTiny = 1e-290;

Tensor lower_factor(const Tensor& A) { return std::get<0>(at::linalg_cholesky_ex(A, /*upper=*/false, false)); }
Tensor solved(const Tensor& lower, const Tensor& X) { return at::linalg_solve_triangular(lower, X, /*upper=*/false); }

// sn / cn and dn / cn^2 of Jacobi's elliptic functions at u = fraction K, by the descending Landen transformation; `mc`
// is the complementary parameter, as small as 1e-14 here.
struct Node {
  double ratio, slope;
};
Node elliptic_node(double fraction, double mc, double K) {
  std::array<double, 16> means{}, geometric{};
  double a = 1, c = 1, dn = 1;
  int last = 0;
  for (int i = 0; i < 16; ++i) {
    last = i;
    means[static_cast<std::size_t>(i)] = a;
    mc = std::sqrt(mc);
    geometric[static_cast<std::size_t>(i)] = mc;
    c = (a + mc) / 2;
    if (std::abs(a - mc) <= 1e-9 * a) break;
    mc *= a;
    a = c;
  }
  const double u = fraction * K * c;
  double ratio = std::cos(u) / std::sin(u);  // cn / sn on the way up
  c *= ratio;
  for (int i = last; i >= 0; --i) {
    const double b = means[static_cast<std::size_t>(i)];
    ratio *= c;
    c *= dn;
    dn = (geometric[static_cast<std::size_t>(i)] + ratio) / (b + ratio);
    ratio = c / b;
  }
  const double sn = 1 / std::sqrt(c * c + 1), cn = c * sn;
  return {sn / cn, dn / (cn * cn)};
}

double quarter_period(double mc) {
  double a = 1, b = std::sqrt(mc);
  while (std::abs(a - b) > 1e-15 * a) {
    const double mean = (a + b) / 2;
    b = std::sqrt(a * b);
    a = mean;
  }
  return std::numbers::pi / (2 * a);
}

}  // namespace

RidgeCholesky ridge_cholesky(const Tensor& S, double ridge, const Tensor& identity) {
  RidgeCholesky result;
  result.root = S.diagonal(0, 1, 2).sqrt();
  const Tensor scale = at::diag_embed(result.root.reciprocal().masked_fill_(result.root == 0, 0));
  result.lower = lower_factor(at::baddbmm(ridge * identity, at::bmm(scale, S), scale));
  result.inverse = solved(result.lower, scale);
  return result;
}

InverseRoot make_inverse_root(double reach, double top, std::int64_t terms, const Tensor& identity) {
  const double mc = reach * reach;
  const double K = quarter_period(mc);
  std::vector<Tensor> divisors, shifts;
  for (std::int64_t j = 0; j < terms; ++j) {
    const Node node = elliptic_node((static_cast<double>(j) + 0.5) / static_cast<double>(terms), mc, K);
    const double weight = node.slope * 2 * reach / std::numbers::pi * K / static_cast<double>(terms) * std::sqrt(top);
    const double shift = reach * reach * node.ratio * node.ratio * top;
    divisors.push_back(at::full({1, 1, 1}, 1 / weight, identity.options()));
    shifts.push_back((identity * (shift / weight)).unsqueeze(0));
  }
  return {at::cat(divisors), at::cat(shifts)};
}

// With X / w + s / w I = T T^T the term is T^-T T^-1: all of them stacked are one tall matrix, whose Gram matrix is the
// sum.
Tensor inverse_root(const Tensor& X, const InverseRoot& rational) {
  const std::int64_t k = X.size(1);
  const Tensor terms = at::addcmul(rational.shift, X.unsqueeze(1), rational.divisor);
  const Tensor stacked = solved(lower_factor(terms), at::eye(k, X.options())).reshape({X.size(0), -1, k});
  return at::bmm(stacked.transpose(1, 2), stacked);
}

// C (C^2)^-1/2 and one step of Newton-Schulz, which squares what the terms left.
Tensor matrix_sign(const Tensor& C, const InverseRoot& rational) {
  const Tensor S = at::bmm(C, inverse_root(at::bmm(C, C), rational));
  return at::baddbmm(S, at::bmm(S, S), S, 1.5, -0.5);
}

// low: the mean of A's values with weights lambda^4096; high: ||A^4096||_F^(1/4096). Six squarings of norm one leave
// 2^-128 at least.
LargestEigenvalue largest_eigenvalue(const Tensor& A) {
  constexpr int kRounds = 2, kSquarings = 6;
  Tensor B = A;
  Tensor logarithm;
  double power = 1;
  for (int round = 0; round <= kRounds; ++round) {
    const Tensor norm = at::linalg_vector_norm(B, 2, {1, 2}, true).clamp_min_(kTiny);
    const Tensor part = norm.log();
    logarithm = round == 0 ? part : at::add(logarithm, part, 1 / power);
    B = B / norm;
    for (int i = 0; i < kSquarings && round < kRounds; ++i, power *= 2) B = at::bmm(B, B);
  }
  const Tensor weights = B.diagonal(0, 1, 2).sum(1).clamp_min_(kTiny);
  return {(A * B).sum({1, 2}) / weights, logarithm.exp_().flatten()};
}

Tensor leading_rows_first(const Tensor& A, const Tensor& trace, const Tensor& identity, int steps) {
  constexpr double kRidge = 1e-15;  // of the trace
  const Tensor unit = trace.clamp_min(kTiny).view({-1, 1, 1});
  Tensor N = at::add(A / unit, identity, kRidge);
  Tensor X;
  for (int step = 0; step < steps; ++step) {
    const Tensor first = lower_factor(N);
    const Tensor turned = first.transpose(1, 2);
    const Tensor second = lower_factor(at::bmm(turned, first));
    const Tensor O = solved(second, turned);
    X = X.defined() ? at::bmm(O, X) : O;
    if (step + 1 < steps) N = at::bmm(second.transpose(1, 2), second);
  }
  return X;
}

}  // namespace spectralclip::torch::aten

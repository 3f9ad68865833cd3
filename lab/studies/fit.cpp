// SPDX-License-Identifier: Apache-2.0
#include "studies/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "constants.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

double student_t975(double degrees) {
  constexpr std::array<double, 4> kTable = {12.7062, 4.3027, 3.1824, 2.7764};
  if (!(degrees >= 1)) return kNaN;
  if (degrees < 5) return kTable[static_cast<std::size_t>(degrees) - 1];
  const double r = 1 / degrees;
  return 1.959964 + r * (2.372271 + r * (2.822499 + r * 2.555853));
}

Interval mean_interval(double sum, double squares, double count) {
  const double mean = sum / count;
  if (count < 2) return {mean, kNaN, kNaN};
  const double variance = std::max(0.0, squares - count * mean * mean) / (count - 1);
  const double half = student_t975(count - 1) * std::sqrt(variance / count);
  return {mean, mean - half, mean + half};
}

Interval fit_exponent(std::span<const double> x, std::span<const double> y) {
  SPECTRALCLIP_REQUIRE(x.size() == y.size(), "a fit of ", y.size(), " values at ", x.size(), " places");
  std::vector<double> u, v;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] > 0 && y[i] > 0 && std::isfinite(y[i]))) continue;
    u.push_back(std::log(x[i]));
    v.push_back(std::log(y[i]));
  }
  if (u.size() < 3) return {kNaN, kNaN, kNaN};
  const double u_mean = mean_of(u), v_mean = mean_of(v);
  double uu = 0, uv = 0, rest = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    uu += (u[i] - u_mean) * (u[i] - u_mean);
    uv += (u[i] - u_mean) * (v[i] - v_mean);
  }
  const double p = uv / uu;
  for (std::size_t i = 0; i < u.size(); ++i) rest += std::pow(v[i] - v_mean - p * (u[i] - u_mean), 2);
  const auto degrees = static_cast<double>(u.size() - 2);
  const double half = student_t975(degrees) * std::sqrt(rest / degrees / uu);
  return {p, p - half, p + half};
}

}  // namespace spectralclip::lab

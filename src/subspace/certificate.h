// SPDX-License-Identifier: Apache-2.0
// What random columns prove about what they did not see; derivation and proof in docs/numerics.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace spectralclip {

// The number r^2 such that sum_i <omega_i, v>^2 < r^2 has probability at most `failure` for any unit vector v, with
// `fresh` independent columns of entries uniform on (-sqrt 3, sqrt 3).
[[nodiscard]] double small_ball_radius_squared(std::int64_t fresh, double failure);

// The largest eigenvalue that [[A, E], [E^T, B]] can have, A diagonal, ||B|| <= b and rows of E of length e_i: the root
// x above every a_i and b of sum_i e_i^2 / (x - a_i) = x - b. part(i) gives {a_i, e_i^2}. 50 halvings of count terms.
template <class Part>
[[nodiscard]] double coupled_eigenvalue(std::int64_t count, double b, const Part& part) {
  double low = b, sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [a, e_squared] = part(i);
    low = std::max(low, a);
    sum += e_squared;
  }
  if (sum == 0) return low;
  // At low + sqrt(sum) both sides of the equation are at least sqrt(sum) away from their poles.
  double high = low + std::sqrt(sum);
  for (int halving = 0; halving < 50; ++halving) {
    const double x = low + (high - low) / 2;
    double coupled = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [a, e_squared] = part(i);
      if (e_squared > 0) coupled += e_squared / (x - a);
    }
    (coupled <= x - b ? high : low) = x;
  }
  return high;
}

}  // namespace spectralclip

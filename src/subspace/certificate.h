// SPDX-License-Identifier: Apache-2.0
// What random columns prove about what they did not see; derivation and proof in docs/numerics.md.
#pragma once

#include <cstdint>

namespace spectralclip {

// The number r^2 such that sum_i <omega_i, v>^2 < r^2 has probability at most `failure` for any unit vector v, with
// `fresh` independent columns of entries uniform on (-sqrt 3, sqrt 3).
[[nodiscard]] double small_ball_radius_squared(std::int64_t fresh, double failure);

}  // namespace spectralclip

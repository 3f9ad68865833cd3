// SPDX-License-Identifier: Apache-2.0
// Upper bounds on the largest singular value that is left after clipping; derivation and proof in docs/numerics.md.
#pragma once

#include <cstdint>

#include "spectralclip/report.h"

namespace spectralclip {

struct Certificate {
  double bound = 0;
  BoundKind kind = BoundKind::certain;
};

struct CertificateInput {
  double seen = 0;           // largest singular value left inside the subspace: min(sigma_max, tau), rounding included
  double unseen_energy = 0;  // ||G'||_F^2 minus the energy inside the subspace, rounding included
  double probe_largest = 0;  // largest eigenvalue of the probe (ritz.h); ignored without fresh columns
  std::int64_t fresh = 0;
  int looks = 1;        // how many probes the stopping rule may have looked at (union bound)
  double left_out = 0;  // largest value that the probe takes for held, though it is not inside the subspace
};

// sqrt(seen^2 + min(unseen energy, (probe bound + left out)^2)), said to be certain when the energy decides.
[[nodiscard]] Certificate certify(const CertificateInput& input);

// The number r^2 such that sum_i <omega_i, v>^2 < r^2 has probability at most `failure` for any unit vector v, with
// `fresh` independent columns of entries uniform on (-sqrt 3, sqrt 3).
[[nodiscard]] double small_ball_radius_squared(std::int64_t fresh, double failure);

}  // namespace spectralclip

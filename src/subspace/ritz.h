// SPDX-License-Identifier: Apache-2.0
// From the products of one pass to singular triplets: with W = G V = Q R, B = Q^T G = R^-T Z^T, and the eigenpairs of
// B B^T give sigma and the right vectors as combinations of the rows of Z^T. All k x k, in double.
#pragma once

#include <cstdint>

#include "subspace/workspace.h"

namespace spectralclip {

struct Ritz {
  std::int64_t k = 0;
  std::int64_t independent = 0;  // columns of W that are linearly independent
  double weakest = 1;            // smallest pivot ratio among them (small_eigen.h)
  double* sigma = nullptr;       // k, descending; zero beyond `independent`
  double* previous = nullptr;    // k: sigma of the pass before, zero when there was none at this width
  double* mix = nullptr;         // k x k: right vectors are the rows of mix * Zt
  double* sine = nullptr;        // k: sine of the angle between right vector i and the span of the columns that went in
  double* probe = nullptr;       // k: eigenvalues of the probe, descending
  // Products the caller fills: S = W^T W, T = Zt Zt^T, N = Vt Vt^T, P = Vt Zt^T (N and P only for sines).
  double* S = nullptr;
  double* T = nullptr;
  double* N = nullptr;
  double* P = nullptr;
  double* scratch = nullptr;  // 4 k x k

  [[nodiscard]] static std::size_t bytes(std::int64_t k) noexcept;
  static Ritz grant(Workspace& workspace, std::int64_t k) noexcept;
};

// sigma and mix from S and T. drop: pivot ratio below which a column of W counts as dependent.
void solve_ritz(Ritz& ritz, double drop);

// sine[0 … count) from N, P and T: sine^2 = mix (T - P^T N^-1 P) mix^T, free of cancellation down to rounding of
// double.
void solve_sines(Ritz& ritz, std::int64_t count);

// The probe: fresh columns Omega (the last k - kept of V), H = (I - Q Q^T) G with Q from the kept columns alone, which
// do not depend on Omega. Fills probe[0 … k - kept) with the eigenvalues of (H^T H Omega)^T (H^T H Omega).
void probe_fresh_columns(Ritz& ritz, std::int64_t kept, double drop);

// What the leading right vector v gained in the pass over v0, its direction within the kept columns (orthonormal):
// the squared sine of their angle and (sigma^2 - ||G v0||^2) / sigma^2. Needs P = Vt_kept Zt^T; uses `sine` as scratch.
struct Turn {
  double sine_squared = 0;
  double gain = 0;
};
[[nodiscard]] Turn leading_turn(Ritz& ritz, std::int64_t kept);

}  // namespace spectralclip

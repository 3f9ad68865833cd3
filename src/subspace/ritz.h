// SPDX-License-Identifier: Apache-2.0
// From the products of passes to singular triplets: with W = G V = Q R, B = Q^T G = R^-T Z^T, and the eigenpairs of
// B B^T give sigma and the right vectors as combinations of the rows of Z^T. V holds the columns of all passes over the
// matrix so far (a block Krylov basis), all k x k work is in double.
#pragma once

#include <cstdint>

#include "subspace/workspace.h"

namespace spectralclip {

// What the leading right vector gained in the pass over v0, its direction within V: the squared sine of their angle and
// (sigma^2 - ||G v0||^2) / sigma^2.
struct Turn {
  double sine_squared = 0;
  double gain = 0;
};

struct Ritz {
  std::int64_t capacity = 0;     // leading dimension of S, T, N, P
  std::int64_t k = 0;            // columns so far
  std::int64_t independent = 0;  // columns of W that are linearly independent
  double weakest = 1;            // smallest pivot ratio among them (small_eigen.h)
  // Products the caller keeps: S = W^T W, T = Zt Zt^T, N = Vt Vt^T, P = Vt Zt^T.
  double* S = nullptr;
  double* T = nullptr;
  double* N = nullptr;
  double* P = nullptr;
  // What follows from them, packed k x k where square.
  double left_out = 0;      // ||H V_d||_F^2 at most, V_d the columns that were left out as dependent
  double tail = 0;          // largest singular value of the rows of B from some column on
  double* sigma = nullptr;  // k, descending; zero beyond `independent`
  double* gain = nullptr;   // k: how much relative rounding of the columns of W grows in left vector i; 1 when they
                            // are orthogonal
  double* sine = nullptr;   // k: sine of the angle between right vector i and the span of V
  Turn turn;
  double* mix = nullptr;      // k x k: right vectors are the rows of mix * Zt
  double* inverse = nullptr;  // L^-1, S = L L^T
  double* scratch = nullptr;  // kScratch k x k

  static constexpr std::int64_t kScratch = 4;
  [[nodiscard]] static std::size_t bytes(std::int64_t capacity) noexcept;
  static Ritz grant(Arena& memory, std::int64_t capacity) noexcept;
};

// sigma, gain, mix, inverse from S and T. drop: pivot ratio below which a column of W counts as dependent. epsilon: of
// the type the products were made in; a column of W so short that their rounding could feign independence is left out
// as well. tail: what the columns from `tail_first` on show beyond those before them.
void solve_ritz(Ritz& ritz, double drop, double epsilon, std::int64_t tail_first = 0);

// sine and turn (columns that were left out count as outside) from N, P and T: sine^2 = mix (T - P^T N^-1 P) mix^T,
// free of cancellation down to rounding of double. Columns need not be orthonormal, only far from dependent.
void solve_sines(Ritz& ritz);

// The probe of `fresh` random columns Omega, of which the last `count` rows of V are an orthonormal basis after what
// they share with the `kept` rows before them was taken off: the largest eigenvalue of (H^T H Omega)^T (H^T H Omega), H
// = (I - Q Q^T) G with Q from the kept columns alone. X: fresh x count, Omega in that basis.
[[nodiscard]] double probe_largest(const Ritz& ritz, std::int64_t kept, const double* X, std::int64_t fresh,
                                   double drop);

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// What the dense methods share: the scaled problem, the limits of squaring, and the report that follows from a
// spectrum.
#pragma once

#include <Eigen/Core>

#include "clip/panel.h"
#include "spectralclip/matrix.h"
#include "spectralclip/report.h"

namespace spectralclip {

// G with everything in scaled units: entries at most 1 in size, tau_scaled = scale * tau.
struct DenseProblem {
  const AnyMatrix& G;
  double tau;
  Magnitude size;
  double tau_scaled;

  DenseProblem(const AnyMatrix& G_, double tau_);
  // Of a matrix that is elsewhere: G says its shape and type only.
  DenseProblem(const AnyMatrix& G_, double tau_, const Magnitude& size_);
  // Nothing to factor: not finite, or all zero.
  [[nodiscard]] bool trivial() const noexcept { return !size.finite || size.largest == 0; }
};

// The report of a problem that needs no factorisation, or whose factorisation failed.
[[nodiscard]] ClipReport trivial_report(const DenseProblem& problem, Method method);
[[nodiscard]] ClipReport failed_report(const DenseProblem& problem, Method method);

// How many of sigma (largest first, scaled) lie above tau's dead band. Values below `floor` are rounding of sigma[0]
// and never count (they matter for tau = 0 and rank-deficient G).
[[nodiscard]] Eigen::Index count_above(const DenseProblem& problem, const Eigen::VectorXd& sigma, double floor);

// The report of sigma (scaled, largest first) -> after (same order), `clipped` of them changed. `error` bounds
// ||computed - exact result||_2 in scaled units, before storing.
[[nodiscard]] ClipReport spectrum_report(const DenseProblem& problem, Method method, const Eigen::VectorXd& sigma,
                                         const Eigen::VectorXd& after, Eigen::Index clipped, double error);

// Bound on the spectral norm of what storing a matrix of Frobenius norm `norm` changes: relative rounding, and absolute
// rounding where entries are subnormal.
[[nodiscard]] double storage_rounding(const AnyMatrix& G, double norm);

// sqrt(max(m, n)) * eps of float64: the size of an accumulated rounding error relative to a Frobenius norm.
[[nodiscard]] double dense_rounding(const AnyMatrix& G);

// Largest sigma_max / tau (sigma_max / c for soften) that a Gram matrix in float64 can serve.
// A = G^T G carries an error E, ||E||_2 <= k eps sigma1^2 (k up to 6, measured at n = 200, sigma1 = 15 tau). The result
// is G f(A) with f(x) = min(1, tau / sqrt(x)). In the eigenbasis the change of f is E_ij f[x_i, x_j], and at or above
// tau
//   sigma_i |f[x_i, x_j]| = tau / (sigma_j (sigma_i + sigma_j)) <= 1 / (2 tau);
// with one value below tau it is at most 1 / (sigma + tau), no larger, and with both below it is 0. So the result is
// off by ||E||_F / (2 tau) at most, about k eps sigma1 (sigma1 / tau) / 2. Two demands:
//   accuracy   k eps (sigma1 / tau) / 2 <= c sqrt(max(m, n)) eps_storage, relative to ||G||_F: harmless for 32 bits
//              up to 1e8, for float64 up to some tens;
//   decisions  singular values at tau are off by k eps (sigma1 / tau)^2 / 2 relative to tau, which must stay inside
//              the dead band, or a second clip would write again: sigma1 / tau <= sqrt(2 dead_band / (k eps)), that is
//              1.9e5 / sqrt(k) for 16- and 32-bit storage and 45 / sqrt(k) for float64.
// The second is the stricter one.
[[nodiscard]] double gram_ratio_limit(ScalarType storage) noexcept;

}  // namespace spectralclip

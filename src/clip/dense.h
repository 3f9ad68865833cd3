// SPDX-License-Identifier: Apache-2.0
// The dense methods: everything above tau is clipped, whatever its number, by a factorisation in float64 of a matrix
// stored in any type. Stateless; they allocate, and cost O(m n min(m, n)).
// Preconditions (checked at the public edge): G valid, tau >= 0 and not NaN. tau = infinity only measures.
// On not_finite / factorization_failed G is untouched. write == false: only report what would be done.
// Nothing above tau (dead_band.h): not one byte of G is written.
#pragma once

#include "spectralclip/factors.h"
#include "spectralclip/matrix.h"
#include "spectralclip/report.h"

namespace spectralclip {

// Full SVD. The ground truth.
ClipReport clip_exact(const AnyMatrix& G, double tau, bool write);

// Eigenpairs of the smaller Gram matrix, only those above tau^2. Falls back to clip_exact when sigma_max / tau is above
// gram_ratio_limit (dense_report.h); report.method says which ran.
ClipReport clip_gram(const AnyMatrix& G, double tau, bool write);
ClipReport clip_gram(const AnyMatrix& G, double tau, bool write, ClipFactors* factors);  // written down, if not null

// Products only (matrix sign and inverse square root). The same fall-back, at newton_schulz_ratio_limit.
ClipReport clip_newton_schulz(const AnyMatrix& G, double tau, bool write);

// The report of a G that holds NaN or infinity: its sizes are NaN.
[[nodiscard]] ClipReport not_finite_report(double tau, Method method);

}  // namespace spectralclip

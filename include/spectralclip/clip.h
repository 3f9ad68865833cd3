// SPDX-License-Identifier: Apache-2.0
// One matrix. clip_singular_values is the operator of the paper, C_tau(G) = U diag(min(sigma, tau)) V^T, in place.
#pragma once

#include <cstdint>
#include <memory>

#include "spectralclip/executor.h"
#include "spectralclip/export.h"
#include "spectralclip/factors.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/report.h"

namespace spectralclip {

// Clamps the singular values of G at tau, in place; stateless. Nothing above tau: G is not written at all.
// tau >= 0 (infinity: only measure). Throws InvalidArgument on misuse, a rank above min(rows, cols) included.
SPECTRALCLIP_EXPORT ClipReport clip_singular_values(const AnyMatrix& G, double tau, const ClipOptions& options = {},
                                                    Executor& executor = serial_executor());
// … and writes down what it does to G.
SPECTRALCLIP_EXPORT ClipReport clip_singular_values(const AnyMatrix& G, double tau, const ClipOptions& options,
                                                    ClipFactors& factors, Executor& executor = serial_executor());

// One matrix over many steps: remembers the leading right singular vectors, so that a step costs one or two passes.
class SPECTRALCLIP_EXPORT MatrixClipper {
 public:
  MatrixClipper(std::int64_t rows, std::int64_t cols, const ClipOptions& options = {}, std::uint64_t matrix_id = 0);
  ~MatrixClipper();
  MatrixClipper(MatrixClipper&&) noexcept;
  MatrixClipper& operator=(MatrixClipper&&) noexcept;

  ClipReport clip(const AnyMatrix& G, double tau, Executor& executor = serial_executor());
  [[nodiscard]] std::int64_t step() const noexcept;  // gradients clipped so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Under their own names, because clip means min(sigma, tau) only. In place; dense factorisations in float64.
// soften: sigma -> sigma / sqrt(1 + sigma^2 / c^2), i.e. (I + G G^T / c^2)^(-1/2) G. Requires c > 0.
SPECTRALCLIP_EXPORT ClipReport soften_singular_values(const AnyMatrix& G, double c);
// orthogonalize: sigma -> 1 for sigma above rounding, 0 stays 0, i.e. U V^T. Method exact or newton_schulz.
SPECTRALCLIP_EXPORT ClipReport orthogonalize(const AnyMatrix& G, Method method = Method::exact);
// Norm clipping: G *= min(1, max_norm / ||G||_F). Also what a vector gets, as the m x 1 case of C_tau.
SPECTRALCLIP_EXPORT ClipReport clip_norm(const AnyMatrix& G, double max_norm, Executor& executor = serial_executor());

// Frobenius norm; infinity or NaN when an entry is not finite.
[[nodiscard]] SPECTRALCLIP_EXPORT double frobenius_norm(const AnyMatrix& G, Executor& executor = serial_executor());

}  // namespace spectralclip

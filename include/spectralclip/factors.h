// SPDX-License-Identifier: Apache-2.0
// What a clip did, as a value: the few directions it lowered and by how much, so that who holds the same matrix, or
// other rows of it, gets the same result without a search. c directions are c (n + 1) numbers.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "spectralclip/executor.h"
#include "spectralclip/export.h"
#include "spectralclip/matrix.h"

namespace spectralclip {

// Factors apply one after another, each as G <- G - (G V) diag(c) V^T (or its mirror, of left vectors), a scale, zeros,
// or, where a dense method changed everything, the entries themselves. Plain bytes, in the order of this machine.
class SPECTRALCLIP_EXPORT ClipFactors {
 public:
  ClipFactors() = default;
  explicit ClipFactors(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }  // G was not written
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  void clear() noexcept { bytes_.clear(); }

 private:
  friend class FactorWriter;  // src/clip/factors.h
  std::vector<std::uint8_t> bytes_;
};

// Does to G what the clip did. Of an equal matrix of the same type the result has the same bits. Throws InvalidArgument
// on factors of another shape, and on damaged ones; then G is as it was.
SPECTRALCLIP_EXPORT void apply_factors(const AnyMatrix& G, const ClipFactors& factors,
                                       Executor& executor = serial_executor());

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// How clips write down what they do (spectralclip/factors.h).
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "clip/gram_side.h"
#include "spectralclip/factors.h"

namespace spectralclip {

// Without factors to write to it does nothing.
class FactorWriter {
 public:
  explicit FactorWriter(ClipFactors* factors = nullptr) : factors_(factors) {}

  // c rows of Vt, n entries each, ld apart.
  template <class T>
  void vectors(const T* Vt, std::int64_t c, std::int64_t n, std::int64_t ld, const T* coefficient);
  void side(Side side, double scale, const Eigen::MatrixXd& Q, const Eigen::VectorXd& weight);
  void scaled(double factor);
  void zeros();
  void entries(const AnyMatrix& G);

 private:
  void put(const void* data, std::size_t bytes);
  void begin(std::uint32_t kind, ScalarType type, std::int64_t count, std::int64_t length);

  ClipFactors* factors_;
};

}  // namespace spectralclip

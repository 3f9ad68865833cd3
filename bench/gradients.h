// SPDX-License-Identifier: Apache-2.0
// Gradients whose leading singular triplets are known exactly: G = U diag(sigma) V^T + (I - U U^T) E (I - V V^T), E
// Gaussian. Spectrum, bulk and the turning of the subspace from step to step follow real NanoGPT gradients.
#pragma once

#include <Eigen/Core>
#include <Eigen/QR>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "random/name_hash.h"
#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"

namespace spectralclip::bench {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMap = Eigen::Map<RowMatrix>;

inline constexpr std::int64_t kTerms = 24;    // known triplets
inline constexpr double kBulk = 0.02;         // spectral norm of the rest, relative to sigma_1
inline constexpr double kTurn = 0.3;          // tangent of the angle between steps: |V_old^T v_new| = 0.96, as measured
inline constexpr double kLift = 2.2;          // leading values of a loud step, relative to sigma_1 of a quiet one
inline constexpr std::int64_t kVariants = 3;  // steps made beforehand, then repeated
inline constexpr double kLoudShare = 0.45;

// sigma_i / sigma_1 of a NanoGPT gradient; beyond the list they fall by this factor (0.013 at i = 30).
inline double relative_sigma(std::int64_t i) {
  constexpr std::array kHead = {1.0, .87, .52, .43, .33, .24, .19, .17, .15, .14, .11, .09};
  constexpr double kFall = 0.898;
  const auto last = static_cast<std::int64_t>(kHead.size()) - 1;
  return i <= last ? kHead[static_cast<std::size_t>(i)] : kHead.back() * std::pow(kFall, static_cast<double>(i - last));
}

// rows x cols floats on a cache line of their own.
class Buffer {
 public:
  Buffer(std::int64_t rows, std::int64_t cols) : rows_(rows), cols_(cols) {
    data_.reset(static_cast<float*>(::operator new(static_cast<std::size_t>(rows * cols) * 4, kAlign)));
  }
  [[nodiscard]] float* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] std::int64_t entries() const noexcept { return rows_ * cols_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(entries()) * 4; }
  [[nodiscard]] AnyMatrix view() const { return MatrixView<float>(data(), rows_, cols_); }
  [[nodiscard]] RowMap map() const { return {data(), rows_, cols_}; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* data) const noexcept { ::operator delete(data, kAlign); }
  };
  std::int64_t rows_, cols_;
  std::unique_ptr<float, Free> data_;
};

// Standard normal numbers by Box-Muller; position -> bits, so that any thread may fill any matrix.
inline void fill_normal(std::uint64_t seed, float factor, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 2) {
    const std::uint64_t bits = mixed_bits(seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(i + 1));
    const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;
    const float angle = static_cast<float>(bits & 0xffffffU) * (0x1p-23F * std::numbers::pi_v<float>);
    const float radius = factor * std::sqrt(-2 * std::log(u));
    out[i] = radius * std::cos(angle);
    if (i + 1 < n) out[i + 1] = radius * std::sin(angle);
  }
}

inline RowMatrix random_normal(std::int64_t rows, std::int64_t cols, std::uint64_t seed, double factor) {
  RowMatrix X(rows, cols);
  fill_normal(seed, static_cast<float>(factor), X.data(), rows * cols);
  return X;
}

inline RowMatrix orthonormalized(const RowMatrix& X) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(X.cast<double>());
  const Eigen::MatrixXd Q = qr.householderQ() * Eigen::MatrixXd::Identity(X.rows(), X.cols());
  return Q.cast<float>();
}

// The known part of one gradient.
struct Factors {
  RowMatrix U;                // rows x kTerms, orthonormal
  RowMatrix V;                // cols x kTerms, orthonormal
  std::vector<double> sigma;  // kTerms, largest first

  // sum over i < count of (sigma_i - tau) u_i v_i^T: what clipping at tau takes away.
  [[nodiscard]] RowMatrix removed_part(std::int64_t count, double tau) const {
    RowMatrix scaled = U.leftCols(count);
    for (std::int64_t i = 0; i < count; ++i) {
      scaled.col(i) *= static_cast<float>(sigma[static_cast<std::size_t>(i)] - tau);
    }
    return scaled * V.leftCols(count).transpose();
  }
};

// `before` turned a little, or a new subspace when before is null. lifted: how many leading values a loud step raises.
inline Factors make_factors(const Buffer& shape, const Factors* before, double scale, std::int64_t lifted,
                            std::uint64_t seed) {
  const std::uint64_t seed_v = mixed_bits(seed);
  Factors factors;
  const auto turned = [&](const RowMatrix* old, std::int64_t n, std::uint64_t side_seed) {
    const double unit = 1 / std::sqrt(static_cast<double>(n));  // random columns of length one
    if (old == nullptr) return orthonormalized(random_normal(n, kTerms, side_seed, unit));
    return orthonormalized(*old + random_normal(n, kTerms, side_seed, kTurn * unit));
  };
  factors.U = turned(before == nullptr ? nullptr : &before->U, shape.rows(), seed);
  factors.V = turned(before == nullptr ? nullptr : &before->V, shape.cols(), seed_v);
  for (std::int64_t i = 0; i < kTerms; ++i) {
    constexpr double kSpread = 0.05;  // between the lifted values
    const double lift = kLift * (1 - kSpread * static_cast<double>(i));
    factors.sigma.push_back(scale * (i < lifted ? lift : relative_sigma(i)));
  }
  return factors;
}

// G = E - U (U^T E - (diag(sigma) + U^T E V) V^T) - (E V) V^T: 10 kTerms flops per entry beside the noise.
inline void fill_gradient(const Factors& factors, double scale, std::uint64_t seed, const Buffer& out) {
  const double rows = static_cast<double>(out.rows()), cols = static_cast<double>(out.cols());
  fill_normal(seed, static_cast<float>(kBulk * scale / (std::sqrt(rows) + std::sqrt(cols))), out.data(), out.entries());
  RowMap G = out.map();
  RowMatrix left(out.rows(), 2 * kTerms), right(2 * kTerms, out.cols());
  left.leftCols(kTerms) = factors.U;
  left.rightCols(kTerms).noalias() = G * factors.V;
  RowMatrix middle = factors.U.transpose() * left.rightCols(kTerms);
  for (std::int64_t i = 0; i < kTerms; ++i)
    middle(i, i) += static_cast<float>(factors.sigma[static_cast<std::size_t>(i)]);
  right.topRows(kTerms).noalias() = factors.U.transpose() * G;
  right.topRows(kTerms).noalias() -= middle * factors.V.transpose();
  right.bottomRows(kTerms) = factors.V.transpose();
  G.noalias() -= left * right;
}

struct Layer {
  std::string name;
  double scale = 1;             // sigma_1 of a quiet step
  std::int64_t directions = 1;  // how many a loud step raises: 1 to 3
  std::array<bool, kVariants> loud{};
  std::array<Factors, kVariants> factors;
  std::vector<Buffer> master;  // one per variant
  std::vector<Buffer> work;    // one: what is clipped
};

inline void fill_layer(Layer& layer, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t v = 0; v < kVariants; ++v) {
    const auto at = static_cast<std::size_t>(v);
    const std::uint64_t seed = matrix_id_of(layer.name, v);
    layer.master.emplace_back(rows, cols);
    const Factors* before = v == 0 ? nullptr : &layer.factors[at - 1];
    const std::int64_t lifted = layer.loud[at] ? layer.directions : 0;
    layer.factors[at] = make_factors(layer.master[at], before, layer.scale, lifted, seed);
    fill_gradient(layer.factors[at], layer.scale, mixed_bits(seed + 1), layer.master[at]);
  }
  layer.work.emplace_back(rows, cols);
}

}  // namespace spectralclip::bench

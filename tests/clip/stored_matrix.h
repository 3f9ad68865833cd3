// SPDX-License-Identifier: Apache-2.0
// A matrix in any storage type with a padded row stride, filled from float64 and read back; the padding and a row behind
// the end carry a pattern that nobody may touch. With it: matrices of a given spectrum, and a Jacobi SVD as oracle.
#pragma once

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/scalar_convert.h"
#include "spectralclip/matrix.h"

namespace spectralclip::testing {

class StoredMatrix {
 public:
  StoredMatrix(ScalarType type, const Eigen::MatrixXd& values, std::int64_t padding = 3)
      : type_(type), rows_(values.rows()), cols_(values.cols()), stride_(values.cols() + padding) {
    bytes_.assign(static_cast<std::size_t>((rows_ + 1) * stride_ * size_of(type)), kPattern);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) put(at(i, j), values(i, j));
    }
  }

  [[nodiscard]] AnyMatrix view() { return {bytes_.data(), type_, rows_, cols_, stride_}; }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

  [[nodiscard]] Eigen::MatrixXd values() const {
    Eigen::MatrixXd result(rows_, cols_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) result(i, j) = get(at(i, j));
    }
    return result;
  }

  [[nodiscard]] bool padding_intact() const {
    for (std::int64_t i = 0; i <= rows_; ++i) {
      for (std::size_t b = at(i, i < rows_ ? cols_ : 0); b < at(i + 1, 0); ++b) {
        if (bytes_[b] != kPattern) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint8_t kPattern = 0xa5;

  [[nodiscard]] std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((i * stride_ + j) * size_of(type_));
  }
  template <class T>
  void copy_in(std::size_t at, T x) {
    std::memcpy(bytes_.data() + at, &x, sizeof x);
  }
  template <class T>
  [[nodiscard]] T copy_out(std::size_t at) const {
    T x;
    std::memcpy(&x, bytes_.data() + at, sizeof x);
    return x;
  }
  void put(std::size_t at, double x) {
    const auto narrow = static_cast<float>(x);
    if (type_ == ScalarType::float64) copy_in(at, x);
    if (type_ == ScalarType::float32) copy_in(at, narrow);
    if (type_ == ScalarType::bfloat16) copy_in(at, kernels::to_bfloat16(narrow));
    if (type_ == ScalarType::float16) copy_in(at, kernels::to_float16(narrow));
  }
  [[nodiscard]] double get(std::size_t at) const {
    if (type_ == ScalarType::float64) return copy_out<double>(at);
    if (type_ == ScalarType::float32) return static_cast<double>(copy_out<float>(at));
    if (type_ == ScalarType::bfloat16) return static_cast<double>(kernels::to_float(copy_out<BFloat16>(at)));
    return static_cast<double>(kernels::to_float(copy_out<Float16>(at)));
  }

  ScalarType type_;
  std::int64_t rows_, cols_, stride_;
  std::vector<std::uint8_t> bytes_;
};

inline Eigen::MatrixXd gaussian(Eigen::Index rows, Eigen::Index cols, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  return Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return normal(random); });
}

// rows x cols with the given min(rows, cols) singular values and random singular vectors.
inline Eigen::MatrixXd with_spectrum(Eigen::Index rows, Eigen::Index cols, const Eigen::VectorXd& sigma,
                                     std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const Eigen::Index r = sigma.size();
  const auto basis = [&](Eigen::Index n) -> Eigen::MatrixXd {
    return Eigen::HouseholderQR<Eigen::MatrixXd>(gaussian(n, r, random)).householderQ() *
           Eigen::MatrixXd::Identity(n, r);
  };
  const Eigen::MatrixXd U = basis(rows);
  return U * sigma.asDiagonal() * basis(cols).transpose();
}

// The truth: a Jacobi SVD in extended precision. In float64 Eigen's Jacobi loses 180 eps on a flat 64 x 64 spectrum,
// more than the methods it is to judge.
struct Oracle {
  using Extended = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

  explicit Oracle(const Eigen::MatrixXd& G)
      : scale(std::max(G.cwiseAbs().maxCoeff(), 1e-300)),
        svd((G / scale).cast<long double>(), Eigen::ComputeThinU | Eigen::ComputeThinV) {}
  [[nodiscard]] Eigen::VectorXd sigma() const { return svd.singularValues().cast<double>() * scale; }
  [[nodiscard]] Eigen::MatrixXd mapped(const Eigen::VectorXd& to) const {
    return (svd.matrixU() * to.cast<long double>().asDiagonal() * svd.matrixV().transpose()).cast<double>();
  }
  [[nodiscard]] Eigen::MatrixXd clipped(double tau) const { return mapped(sigma().cwiseMin(tau)); }

  double scale;
  Eigen::JacobiSVD<Extended> svd;
};

// By the eigenvalues of the smaller Gram matrix in extended precision: its squaring costs less than float64 can see.
inline double spectral_norm(const Eigen::MatrixXd& G) {
  const double scale = std::max(G.cwiseAbs().maxCoeff(), 1e-300);
  const Eigen::MatrixXd tall = G.rows() < G.cols() ? Eigen::MatrixXd(G.transpose()) : G;
  const Oracle::Extended W = (tall / scale).cast<long double>();
  const Eigen::SelfAdjointEigenSolver<Oracle::Extended> eigen(W.transpose() * W, Eigen::EigenvaluesOnly);
  return std::sqrt(std::max(0.0, static_cast<double>(eigen.eigenvalues()[W.cols() - 1]))) * scale;
}

}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
#include "studies/rates_problem.h"

#include <Eigen/QR>
#include <cmath>
#include <numeric>

#include "noise/draws.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

using Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<RowMajor>;
using ConstView = Eigen::Map<const RowMajor>;

constexpr double kSmallestSquare = 0.75;  // of a singular value of A; the largest is 1

double loss(double r) { return r * r / 18 + 4.0 / 9 * r * r / (1 + r * r); }

double slope_of_loss(double r) {
  const double w = 1 / (1 + r * r);
  return r * (1.0 / 9 + 8.0 / 9 * w * w);
}

MatrixXd random_rotation(std::int64_t n, Draws& draws) {
  MatrixXd gaussian(n, n);
  draws.fill_normal(std::span(gaussian.data(), static_cast<std::size_t>(n * n)));
  return Eigen::HouseholderQR<MatrixXd>(gaussian).householderQ() * MatrixXd::Identity(n, n);
}

MatrixXd make_design(std::int64_t n, std::uint64_t seed) {
  Draws draws(seed, "rates.design");
  const MatrixXd left = random_rotation(n, draws), right = random_rotation(n, draws);
  const Eigen::VectorXd squares = Eigen::VectorXd::LinSpaced(n, 1, n > 1 ? kSmallestSquare : 1);
  return left * squares.cwiseSqrt().asDiagonal() * right;
}

}  // namespace

RatesProblem::RatesProblem(const RatesConfig& config, std::uint64_t seed)
    : rows_(config.rows), cols_(config.cols), A_(), transposed_(), start_() {
  SPECTRALCLIP_REQUIRE(rows_ >= 1 && cols_ >= 1, "rates.rows x rates.cols = ", rows_, " x ", cols_, " is empty");
  SPECTRALCLIP_REQUIRE(config.distance > 0, "rates.distance = ", config.distance, " is not above 0");
  A_.resize(static_cast<std::size_t>(rows_ * rows_));
  transposed_.resize(A_.size());
  start_.resize(entries());
  const MatrixXd A = make_design(rows_, seed);
  View(A_.data(), rows_, rows_) = A;
  View(transposed_.data(), rows_, rows_) = A.transpose();
  Draws draws(seed, "rates.start");
  for (double& x : start_) x = draws.below(2) == 0 ? config.distance : -config.distance;
}

double RatesProblem::value(std::span<const double> X) const {
  const RowMajor R = ConstView(A_.data(), rows_, rows_) * ConstView(X.data(), rows_, cols_);
  return std::accumulate(R.data(), R.data() + R.size(), 0.0, [](double sum, double r) { return sum + loss(r); });
}

double RatesProblem::gradient(std::span<const double> X, std::span<double> gradient, std::span<double> scratch) const {
  View R(scratch.data(), rows_, cols_), out(gradient.data(), rows_, cols_);
  // lazyProduct: no packing, which costs more than it saves below a few dozen rows.
  R.noalias() = ConstView(A_.data(), rows_, rows_).lazyProduct(ConstView(X.data(), rows_, cols_));
  for (double& r : scratch) r = slope_of_loss(r);
  out.noalias() = ConstView(transposed_.data(), rows_, rows_).lazyProduct(R);
  return out.squaredNorm();
}

}  // namespace spectralclip::lab

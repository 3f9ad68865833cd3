// SPDX-License-Identifier: Apache-2.0
// The chain of quintics, the polar factor against a Jacobi SVD in extended precision, and the bounds of the largest
// eigenvalue.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "aten/polar.h"
#include "constants.h"
#include "factor/matrix_sign.h"
#include "support/compare.h"
#include "support/factorizations.h"
#include "support/oracle.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using torch::aten::Quintic;

constexpr double kPlainSlope = 15.0 / 8;  // the flattest of the chain, near zero

double through(const std::vector<Quintic>& chain, double x) {
  for (const Quintic& p : chain) x = p(x);
  return x;
}

// The best quintic of [l, 1] alternates four times between its bounds 1 - E and 1 + E (scaled: ratio and 1).
TEST(AtenQuintic, AlternatesBetweenItsBounds) {
  for (const double lower : {0.01, 0.1, 0.4, 0.8, 0.98}) {
    const Quintic p = torch::aten::best_quintic(lower);
    double least = 1;
    double most = 0;
    for (int i = 0; i <= 100000; ++i) {
      const double y = p(lower + (1 - lower) * i / 100000.0);
      least = std::min(least, y);
      most = std::max(most, y);
    }
    EXPECT_NEAR(most, 1, 1e-9);
    EXPECT_NEAR(least, p(lower), 1e-9);
    EXPECT_NEAR(p(1), 1, 1e-12);
  }
}

TEST(AtenPolarChain, MapsTheWholeIntervalToOne) {
  for (const double lower : {1e-16, 1e-12, 1e-4, 0.5}) {
    const auto chain = torch::aten::polar_chain(lower);
    for (double x = lower; x < 1; x *= 1.07) EXPECT_NEAR(through(chain, x), 1, 64 * kEps) << x;
    EXPECT_NEAR(through(chain, 1), 1, 64 * kEps);
    for (double x = lower; x > 1e-30; x /= 3) {  // below: between zero and one, never beyond
      EXPECT_GT(through(chain, x), 0);
      EXPECT_LE(through(chain, x), 1 + 64 * kEps);
    }
    EXPECT_LT(through(chain, lower * 1e-3), 0.9) << "more steps than this lower end needs";
  }
  EXPECT_EQ(torch::aten::polar_chain(1e-12).size(), 24u);
  EXPECT_EQ(torch::aten::polar_chain(1e-16).size(), 31u);
}

// Values above a tenth never fall back to it: rounding does not swamp what it could not swamp before.
TEST(AtenPolarChain, IsGentle) {
  for (const Quintic& p : torch::aten::polar_chain(1e-16)) {
    double least = 1;
    for (double x = 0.1; x <= 1; x += 1e-4) least = std::min(least, p(x));
    EXPECT_GE(least, 0.99 * kPlainSlope * 0.1);
  }
}

TEST(AtenPolarFactor, EqualsTheSvds) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {1, 9}, {20, 20}, {20, 50}, {60, 64}}) {
    for (const double condition : {1.0, 1e2, 1e6}) {
      const VectorXd sigma = (VectorXd::LinSpaced(rows, 0, -std::log(condition))).array().exp();
      const MatrixXd X = with_spectrum(rows, cols, sigma, 3) * (1 - 1e-12);
      const ExtendedSvd svd = jacobi_svd(X.cast<long double>());
      const MatrixXd truth = (svd.U * svd.V.transpose()).cast<double>();
      const MatrixXd U =
          to_eigen(torch::aten::polar_factor(to_tensor(X).unsqueeze(0), torch::aten::polar_chain(1e-16))[0]);
      const double size = std::sqrt(static_cast<double>(rows * cols));
      EXPECT_TRUE(close(U * U.transpose(), MatrixXd::Identity(rows, rows), 8 * kEps * size));
      EXPECT_TRUE(close(U, truth, 16 * kEps * size * condition));  // rounding of X turns U by eps / sigma_min
    }
  }
}

TEST(AtenEigenvalueBounds, EncloseTheLargest) {
  std::mt19937_64 random(8);
  for (const Index r : {1, 5, 40}) {
    for (const double gap : {0.0, 1e-9, 1e-3, 0.5}) {
      VectorXd values = VectorXd::Constant(r, 1 - gap);
      values[0] = 1;
      const MatrixXd W = with_spectrum(r, r, values.cwiseSqrt(), 5);
      const auto bounds = torch::aten::bound_largest_eigenvalue(to_tensor(W * W.transpose()).unsqueeze(0));
      const double low = bounds.low[0].item<double>();
      const double high = bounds.high[0].item<double>();
      const double rounding = 64 * kEps * static_cast<double>(r);
      EXPECT_LE(low, 1 + rounding);
      EXPECT_GE(high, 1 - rounding);
      EXPECT_LE(high / low - 1, factor::kEigenvalueGap);
    }
  }
  const auto none = torch::aten::bound_largest_eigenvalue(at::zeros({1, 3, 3}, at::kDouble));
  EXPECT_EQ(none.low[0].item<double>(), 0);
  EXPECT_EQ(none.high[0].item<double>(), 0);
}

}  // namespace
}  // namespace spectralclip::testing

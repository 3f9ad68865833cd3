// SPDX-License-Identifier: Apache-2.0
#include "support/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spectralclip::testing {

::testing::AssertionResult close(const Eigen::MatrixXd& actual, const Eigen::MatrixXd& expected, double tolerance) {
  if (actual.rows() != expected.rows() || actual.cols() != expected.cols()) {
    return ::testing::AssertionFailure() << actual.rows() << " x " << actual.cols() << " instead of " << expected.rows()
                                         << " x " << expected.cols();
  }
  const Eigen::MatrixXd difference = actual - expected;
  const double distance = difference.allFinite() ? difference.stableNorm() : std::numeric_limits<double>::quiet_NaN();
  if (distance <= tolerance) return ::testing::AssertionSuccess();  // false for NaN on any side
  Eigen::Index i = 0;
  Eigen::Index j = 0;
  difference.cwiseAbs().maxCoeff<Eigen::PropagateNaN>(&i, &j);
  return ::testing::AssertionFailure() << "distance " << distance << " > " << tolerance << "; at (" << i << ", " << j
                                       << ") " << actual(i, j) << " instead of " << expected(i, j);
}

double quantile(std::vector<double> values, double q) {
  const bool broken = std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  if (values.empty() || broken) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = std::ceil(q * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(place, 1.0)) - 1];
}

}  // namespace spectralclip::testing

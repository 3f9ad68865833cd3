// SPDX-License-Identifier: Apache-2.0
// Comparators and order statistics. Each fails on NaN, on either side; each has a test of its own in compare_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <vector>

namespace spectralclip::testing {

// ||actual - expected||_F <= tolerance; the message gives both sides and the worst entry.
[[nodiscard]] ::testing::AssertionResult close(const Eigen::MatrixXd& actual, const Eigen::MatrixXd& expected,
                                               double tolerance);

// The q-quantile by rank (the value at position ceil(q n) in order). NaN when there are no values or one of them is
// NaN.
[[nodiscard]] double quantile(std::vector<double> values, double q);
[[nodiscard]] inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// Straight lines through measured points, and means, with 95 % intervals of Student's t.
#pragma once

#include <span>

namespace spectralclip::lab {

struct Interval {
  double value = 0, low = 0, high = 0;
};

// Exponent p of y = c x^p by least squares in log-log. The interval treats the scatter about the line as independent
// and normal (points - 2 degrees of freedom); it knows nothing of a curve that is not straight. Points that are not
// positive and finite are left out; fewer than three usable ones give NaN.
[[nodiscard]] Interval fit_exponent(std::span<const double> x, std::span<const double> y);

// From the sum and the sum of squares of `count` independent values; NaN bounds for a single one.
[[nodiscard]] Interval mean_interval(double sum, double squares, double count);

// The 97.5 % point of Student's t: tabulated up to 4, then Fisher's expansion about the normal one (error below 0.003).
[[nodiscard]] double student_t975(double degrees);

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Clock, order statistics and the progress line of the benchmark.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace spectralclip::bench {

template <class Callable>
double milliseconds(const Callable& callable) {
  const auto start = std::chrono::steady_clock::now();
  callable();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// q in [0, 1], linear between neighbours; NaN when empty.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

// Median absolute deviation from the median.
inline double median_deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  return median(deviations);
}

// Median of a[i] / b[i]: what two contenders of the same round have to say, slow drifts of the machine taken out.
inline double paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

// One line on stderr: overwritten in place on a terminal, a line per stage elsewhere.
inline void show_progress(const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
}
inline void end_progress() { show_progress(""); }

}  // namespace spectralclip::bench

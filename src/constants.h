// SPDX-License-Identifier: Apache-2.0
// Numbers of the arithmetic in double that many files need.
#pragma once

#include <limits>

namespace spectralclip {

inline constexpr double kEps = std::numeric_limits<double>::epsilon();  // the spacing of 1
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// What the value of a key may be: a range of numbers, some names, or anything of its type.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace spectralclip::lab {

// Numbers, and each entry of a list: between low and high, ends included unless open.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;
  bool open_high = false;
};
struct Choice {
  std::vector<std::string> names;
};
struct AnyValue {
  std::string text;  // how the help says it
};

inline Range at_least(double low) { return {.low = low}; }
inline Range above(double low) { return {.low = low, .open_low = true}; }
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range inside(double low, double high) { return {.low = low, .high = high, .open_low = true, .open_high = true}; }
inline AnyValue switch_value() { return {"true, false"}; }

}  // namespace spectralclip::lab

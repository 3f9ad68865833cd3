// SPDX-License-Identifier: Apache-2.0
// One parameter and its gradients, as a caller of the C interface holds them.
#pragma once

#include <cmath>
#include <vector>

#include "spectralclip/c_api.h"

namespace sclip_testing {

inline constexpr int64_t kRows = 12;
inline constexpr int64_t kCols = 17;

inline std::vector<float> make_gradient(int step) {
  std::vector<float> gradient(kRows * kCols);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * i % 101) + step) * (step % 3 == 2 ? 9 : 1));
  return gradient;
}

struct Handle {
  sclip_clipper* clipper = nullptr;
  ~Handle() { sclip_clipper_destroy(clipper); }
};

inline const int64_t kShape[2] = {kRows, kCols};
inline const sclip_parameter kParameter = {"fc.weight", kShape, 2};

inline sclip_clipper_options default_options() {
  sclip_clipper_options options;
  sclip_clipper_options_init(&options);
  return options;
}

}  // namespace sclip_testing

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
inline const sclip_parameter kParameter = sclip_parameter_of("fc.weight", kShape, 2);

inline sclip_matrix matrix_of(std::vector<float>& entries) {
  return sclip_matrix_of(entries.data(), SCLIP_FLOAT32, kRows, kCols);
}

// A struct as its init function leaves it.
template <class Struct>
Struct initialised(void (*init)(Struct*)) {
  Struct made;
  init(&made);
  return made;
}
inline sclip_clip_report clip_report() { return initialised(sclip_clip_report_init); }
inline sclip_layer_report layer_report() { return initialised(sclip_layer_report_init); }
inline sclip_step_report step_report() { return initialised(sclip_step_report_init); }

// Options of a clipper together with those they point to.
struct Options {
  sclip_threshold_options threshold = initialised(sclip_threshold_options_init);
  sclip_clip_options clip = initialised(sclip_clip_options_init);
  sclip_clipper_options clipper = initialised(sclip_clipper_options_init);

  // Points to where they are now.
  const sclip_clipper_options* operator&() {
    clipper.threshold = &threshold;
    clipper.clip = &clip;
    return &clipper;
  }
};

}  // namespace sclip_testing

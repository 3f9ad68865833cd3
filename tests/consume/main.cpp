// SPDX-License-Identifier: Apache-2.0
// An outside user's first program: clip a 3 x 2 matrix with singular values 4 and 3 at tau = 2 and print what happened.
#include <array>
#include <cmath>
#include <cstdio>

#include "spectralclip/spectralclip.h"

int main() {
  std::array<float, 6> entries{3, 0, 0, 4, 0, 0};  // columns are orthogonal, so their norms are the singular values
  const spectralclip::MatrixView<float> G(entries.data(), 3, 2);
  const spectralclip::ClipReport report =
      spectralclip::clip_singular_values(G, 2.0, {.method = spectralclip::Method::exact});
  const double first = std::hypot(G(0, 0), G(1, 0), G(2, 0));
  const double second = std::hypot(G(0, 1), G(1, 1), G(2, 1));
  std::printf("sigma_max %.3f clipped %d left %.3f %.3f\n", report.sigma_max, static_cast<int>(report.clipped), first,
              second);
  return 0;
}

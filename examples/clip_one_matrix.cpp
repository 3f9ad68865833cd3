// SPDX-License-Identifier: Apache-2.0
// One matrix: singular values above tau are lowered to tau, everything else stays. Exits non-zero when that fails.
#include <spectralclip/spectralclip.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <vector>

namespace sc = spectralclip;

int main() try {
  constexpr std::int64_t kRows = 96, kCols = 64;
  std::vector<float> gradient(kRows * kCols);
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  for (float& entry : gradient) entry = 0.01F * normal(bits);  // sigma_max about 0.01 (sqrt 96 + sqrt 64) = 0.18
  for (std::int64_t i = 0; i < kRows; ++i) gradient[static_cast<std::size_t>(i * kCols + 5)] += 1;  // a spike of 9.8

  // The use: a view, a threshold, a report.
  const sc::MatrixView<float> G(gradient.data(), kRows, kCols);
  const sc::ClipReport report = sc::clip_singular_values(G, 0.5);

  std::printf("%s: sigma_max %.4f, %lld lowered to tau = %g, norm %.4f -> %.4f\n", sc::to_string(report.status),
              report.sigma_max, static_cast<long long>(report.clipped), report.tau, report.norm_before,
              report.norm_after);
  std::printf("nothing left is above %.4f (%s)\n", report.sigma_bound, sc::to_string(report.bound_kind));

  const sc::ClipReport again = sc::clip_singular_values(G, 0.5);  // idempotent: nothing is left to clip
  const bool right = report.status == sc::ClipStatus::ok && report.clipped == 1 && again.clipped == 0;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}

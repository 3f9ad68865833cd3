/* SPDX-License-Identifier: Apache-2.0
 * main.cpp in C. */
#include <math.h>
#include <spectralclip/c_api.h>
#include <stdio.h>

#if SCLIP_VERSION < 100
#error "an older header"
#endif

int main(void) {
  float entries[6] = {3, 0, 0, 4, 0, 0}; /* columns are orthogonal, so their norms are the singular values */
  const sclip_matrix G = sclip_matrix_of(entries, SCLIP_FLOAT32, 3, 2);
  sclip_clip_options options;
  sclip_clip_options_init(&options);
  options.method = SCLIP_METHOD_EXACT;
  sclip_clip_report report;
  sclip_clip_report_init(&report);
  if (sclip_clip_matrix(&G, 2.0, &options, &report) != SCLIP_OK) {
    fprintf(stderr, "%s\n", sclip_last_error());
    return 1;
  }
  printf("sigma_max %.3f clipped %d left %.3f %.3f\n", report.sigma_max, (int)report.clipped,
         sqrt((double)(entries[0] * entries[0] + entries[2] * entries[2] + entries[4] * entries[4])),
         sqrt((double)(entries[1] * entries[1] + entries[3] * entries[3] + entries[5] * entries[5])));
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 * The C entry: rows of one matrix on all ranks, clipped at 2. The largest singular value is known, 5 along one
 * direction, and what is left of the matrix is 2 / 5 of it. Exits 1 otherwise. */
#include <math.h>
#include <spectralclip/mpi_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 40, COLS = 24 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1, failed = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int first = ROWS * rank / ranks, here = ROWS * (rank + 1) / ranks - first;
  const double entry = 5 / sqrt((double)ROWS * COLS);
  float G[ROWS * COLS];
  for (int i = 0; i < here * COLS; ++i) G[i] = (float)entry;

  const int64_t shape[] = {ROWS, COLS};
  const sclip_parameter parameter = sclip_parameter_of("w", shape, 2);
  const sclip_shard shard = sclip_shard_of(0, here);
  sclip_clipper_options options;
  sclip_clipper_options_init(&options);
  sclip_threshold_options threshold;
  sclip_threshold_options_init(&threshold);
  threshold.kind = SCLIP_THRESHOLD_CONSTANT;
  threshold.tau = 2;
  options.threshold = &threshold;
  options.threads = 1;
  sclip_clipper* clipper = NULL;
  sclip_mpi* group = NULL;
  if (sclip_clipper_create_split(&parameter, &shard, 1, &options, &clipper) != SCLIP_OK ||
      sclip_mpi_create(MPI_COMM_WORLD, &group) != MPI_SUCCESS) {
    fprintf(stderr, "rank %d: %s\n", rank, sclip_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const sclip_gradient gradient = sclip_gradient_of(G, SCLIP_FLOAT32);
  const sclip_reduction reduction = sclip_mpi_reduction(group);
  sclip_step_report report;
  sclip_step_report_init(&report);
  if (sclip_clipper_step(clipper, &gradient, 1, NULL) != SCLIP_INVALID_ARGUMENT) failed = 1; /* needs a reduction */
  if (sclip_clipper_step_split(clipper, &gradient, 1, &reduction, &report) != SCLIP_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, sclip_last_error());
    failed = 1;
  }
  if (report.layers_clipped != 1 || fabs(report.norm_after - 2) > 1e-3) failed = 1;
  for (int i = 0; i < here * COLS; ++i)
    if (fabs(G[i] - 0.4 * entry) > 1e-4 * entry) failed = 1;
  sclip_clipper_destroy(clipper);
  sclip_mpi_destroy(group);
  int all = 0;
  MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

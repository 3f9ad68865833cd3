/* SPDX-License-Identifier: Apache-2.0
 * The sums over an MPI communicator for C programs:
 *
 *   sclip_mpi* ranks = NULL;
 *   sclip_mpi_create(MPI_COMM_WORLD, &ranks);
 *   const sclip_reduction reduction = sclip_mpi_reduction(ranks);
 *   sclip_clipper_step_split(clipper, gradients, count, &reduction, &report);
 *   sclip_mpi_destroy(ranks);                                   before MPI_Finalize */
#ifndef SPECTRALCLIP_MPI_C_H
#define SPECTRALCLIP_MPI_C_H

#include <mpi.h>

#include "spectralclip/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sclip_mpi sclip_mpi;

/* Called by all ranks of the communicator, which is duplicated. 0, or an MPI error code; *ranks is NULL then. */
int sclip_mpi_create(MPI_Comm communicator, sclip_mpi** ranks);
void sclip_mpi_destroy(sclip_mpi* ranks);
/* Lives as long as `ranks`. */
sclip_reduction sclip_mpi_reduction(sclip_mpi* ranks);

#ifdef __cplusplus
}
#endif

#endif /* SPECTRALCLIP_MPI_C_H */

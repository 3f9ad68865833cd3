// SPDX-License-Identifier: Apache-2.0
#include "spectralclip/mpi_c.h"

#include <exception>
#include <memory>

#include "spectralclip/mpi.h"

struct sclip_mpi {
  spectralclip::MpiReduction reduction;
};

namespace {

std::int32_t sum(void* context, void* numbers, std::int64_t count, std::int32_t type) {
  try {
    const spectralclip::SumBlock block{numbers, 1, count, count, static_cast<spectralclip::ScalarType>(type)};
    static_cast<sclip_mpi*>(context)->reduction.sum({&block, 1});
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

}  // namespace

extern "C" {

int sclip_mpi_create(MPI_Comm communicator, sclip_mpi** ranks) {
  *ranks = nullptr;
  try {
    *ranks = new sclip_mpi{spectralclip::MpiReduction(communicator)};
    return MPI_SUCCESS;
  } catch (const std::exception&) {
    return MPI_ERR_OTHER;
  }
}

void sclip_mpi_destroy(sclip_mpi* ranks) { delete ranks; }

sclip_reduction sclip_mpi_reduction(sclip_mpi* ranks) { return sclip_reduction_of(&sum, ranks); }

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include "spectralclip/mpi.h"

namespace spectralclip {
namespace {

void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 28;  // MPI counts in int

}  // namespace

MpiReduction::MpiReduction(MPI_Comm communicator) {
  require(MPI_Comm_dup(communicator, &communicator_), "MPI_Comm_dup");
  require(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  require(MPI_Comm_size(communicator_, &ranks_), "MPI_Comm_size");
}

MpiReduction::~MpiReduction() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&communicator_);
}

// Rank 0 adds up and tells the others: what MPI_Allreduce computes may differ between ranks in its last bit, by the
// standard, and ranks that see different sums would go different ways.
void MpiReduction::sum(std::span<const SumBlock> blocks) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
    const std::int64_t count = packed_count(blocks, type);
    if (count == 0) continue;
    run_.resize(static_cast<std::size_t>(count * size_of(type)));
    pack(blocks, type, run_.data());
    const MPI_Datatype number = type == ScalarType::float32 ? MPI_FLOAT : MPI_DOUBLE;
    for (std::int64_t first = 0; first < count; first += kMostAtOnce) {
      std::byte* const data = run_.data() + first * size_of(type);
      const int some = static_cast<int>(std::min(kMostAtOnce, count - first));
      const bool root = rank_ == 0;
      require(MPI_Reduce(root ? MPI_IN_PLACE : data, root ? data : nullptr, some, number, MPI_SUM, 0, communicator_),
              "MPI_Reduce");
      require(MPI_Bcast(data, some, number, 0, communicator_), "MPI_Bcast");
      ++exchanges_;
    }
    bytes_ += count * size_of(type);
    unpack(run_.data(), type, blocks);
  }
}

}  // namespace spectralclip

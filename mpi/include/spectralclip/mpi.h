// SPDX-License-Identifier: Apache-2.0
// Gradients whose rows or columns lie on the ranks of an MPI communicator:
//
//   spectralclip::MpiReduction reduction(MPI_COMM_WORLD);
//   Parameter w{"w", {rows, cols}};  w.shard = {.axis = 0, .extent = rows_here};
//   Clipper clipper({w});
//   clipper.step(gradients, reduction, executor);
//
// The matrix is never gathered: a pass of k columns exchanges k (n + k) + 1 numbers a layer, all layers of a round in
// one reduction and broadcast for each type of number.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectralclip/error.h"
#include "spectralclip/reduction.h"

namespace spectralclip {

// An MPI call that failed; the text is MPI's.
class MpiError : public Error {
 public:
  using Error::Error;
};

// Sums over a duplicate of the communicator, so that no message of the host is in the way. Made, used and destroyed by
// all of its ranks. Errors are thrown instead of ending the program.
class MpiReduction final : public Reduction {
 public:
  explicit MpiReduction(MPI_Comm communicator);
  ~MpiReduction() override;
  MpiReduction(const MpiReduction&) = delete;
  MpiReduction& operator=(const MpiReduction&) = delete;

  void sum(std::span<const SumBlock> blocks) override;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }          // handed to MPI so far …
  [[nodiscard]] std::int64_t exchanges() const noexcept { return exchanges_; }  // … in so many collectives

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int ranks_ = 1;
  std::int64_t bytes_ = 0;
  std::int64_t exchanges_ = 0;
  std::vector<std::byte> run_;
};

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// A step over layers that are split over ranks, driven from outside in rounds:
//
//   while (const int buckets = step.next(executor))              // decisions, from the sums of the round before
//     for (int b = 0; b < buckets; ++b) sum(step.run(b, executor));   // local work, then sums over the ranks of
//     group(b)
//
// The sums of a bucket may be under way while the next one works; all must be there before next(). Every rank sees the
// same sums and goes the same way. All searches come before the first write: a rank that dies on the way leaves the
// gradients of the others as they were.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "clipper/agreement.h"
#include "clipper/layer.h"
#include "clipper/schedule.h"
#include "clipper/shared_work.h"
#include "spectralclip/reduction.h"

namespace spectralclip {

class ShardedStep {
 public:
  ShardedStep(LayerSet& set, WorkspacePool& workspaces);
  ~ShardedStep();

  // refusal: why this rank cannot take part, empty otherwise; then the others hear of it and no rank goes on.
  void begin(std::span<const Gradient> gradients, bool leave_all, const std::string& refusal);
  [[nodiscard]] int next(Executor& executor);
  [[nodiscard]] std::span<const SumBlock> run(int bucket, Executor& executor);
  [[nodiscard]] int group(int bucket) const noexcept { return buckets_[static_cast<std::size_t>(bucket)].group; }
  [[nodiscard]] int groups() const noexcept { return static_cast<int>(agreements_.size()); }
  [[nodiscard]] bool left_all() const noexcept { return left_all_; }
  void layers_changed() noexcept;
  // Layers that every rank holds whole are clipped by one of them each. After the last round: what this rank did, to be
  // heard by all others, and what another rank did.
  void share_work(int rank, int ranks) noexcept { rank_ = rank, ranks_ = ranks; }
  [[nodiscard]] std::vector<std::uint8_t> share() const;
  void take_share(std::span<const std::uint8_t> bytes, Executor& executor);

  [[nodiscard]] std::int64_t bytes() const noexcept;  // of the searches under way

 private:
  enum class Stage : std::uint8_t { over, agree, presence, measure, rounds, matrices };
  struct Entry;  // a layer on its way
  struct Bucket {
    int group = 0;
    std::vector<Entry*> entries;  // whose turn it is
    std::vector<SumBlock> blocks;
  };

  [[nodiscard]] const Gradient& gradient_of(std::size_t layer) const noexcept {
    return gradients_[set_.layers[layer].parameter];
  }
  [[nodiscard]] bool runs_here(std::size_t layer) const noexcept;  // a whole matrix with a gradient
  void make_entries();
  void take_all(Executor& executor);
  int open_buckets();
  void open(std::size_t number, int group);
  int start(Stage stage);
  [[nodiscard]] int after_agreement();
  [[nodiscard]] int after_measure();
  int start_rounds();
  int next_round();
  int finish_rounds();
  void begin_entry(Entry& entry);
  void run_round(Bucket& bucket, Executor& executor);
  void clip_whole_layers(Executor& executor);
  void measure(Bucket& bucket, Executor& executor);
  void fill_matrices();
  void take_matrices();

  LayerSet& set_;
  WorkspacePool& workspaces_;
  std::vector<std::unique_ptr<Entry>> entries_;  // of the layers that are split
  std::vector<Agreement> agreements_;            // of each group
  std::vector<Bucket> buckets_;                  // those of this round first; none is ever given back
  std::size_t open_ = 0;                         // how many are
  std::vector<double> matrix_rows_;              // reports of whole matrices that lie on one rank each
  std::span<const Gradient> gradients_;
  Stage stage_ = Stage::over;
  bool leave_all_ = false;
  bool left_all_ = false;
  bool writing_ = false;     // this round is the one that writes
  bool whole_done_ = false;  // layers that are not split were clipped
  double not_finite_here_ = 0;
  std::string refusal_;
  int rank_ = 0, ranks_ = 1;
  std::vector<std::size_t> whole_;    // layers that were clipped as a whole in this step
  std::vector<int> owners_;           // of whole layers, where work is shared
  std::vector<ClipFactors> factors_;  // what was done to those of this rank
};

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// One matrix whose rows (or, mirrored, columns) lie on several ranks, from begin to end: search or gram, norm clipping,
// erasing, and what becomes of entries out of range. Driven round by round: run() works on the local part, a reduction
// adds blocks() over ranks, take() decides, from the sums, the global shape and the options alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "clip/dense_gram.h"
#include "clip/subspace_clip.h"
#include "spectralclip/rules.h"

namespace spectralclip {

// Columns as G sees them are whole on every rank, its rows are split. rows: of all ranks together; 0 here is legal.
struct ShardedJob {
  Rows G;
  std::int64_t rows = 0;
  Treatment treatment = Treatment::spectral;
  double tau = 0;
  const ClipOptions* options = nullptr;
  RandomStream stream;
};

// Whether a method can do without the other ranks' rows. gram adds up the Gram matrix of the whole side, which must be
// the smaller one; exact and newton_schulz factorise or multiply the matrix as a whole.
[[nodiscard]] bool can_shard(Method method, std::int64_t rows, std::int64_t cols) noexcept;

class ShardedClip {
 public:
  void begin(const ShardedJob& job, SubspaceState& state, Arena& basis);

  [[nodiscard]] bool done() const noexcept { return work_ == Work::none; }
  [[nodiscard]] bool writes() const noexcept;                                  // the next run() changes G
  void run(Arena& memory, Executor& executor);                                 // over the local rows
  [[nodiscard]] SumBlocks blocks() const noexcept;                             // its sums
  void take();                                                                 // with the sums of all rows
  [[nodiscard]] const ClipReport& report() const noexcept { return report_; }  // once done

 private:
  enum class Work : std::uint8_t { none, search, gram, lower, squares, scale, erase, survey };

  [[nodiscard]] AnyMatrix whole() const noexcept;  // shape and type of the matrix, no data
  [[nodiscard]] bool gram_shards() const noexcept;
  [[nodiscard]] Rows scaled() const noexcept;
  void start();
  void start_search();
  void go_on_to_the_end();  // until the basis spans the matrix
  void start_gram();
  void take_search();
  void take_gram();
  void take_squares();
  void take_survey();
  void end(const ClipReport& report);
  void end_scaled(ClipReport report);
  void survey_entries();

  ShardedJob job_;
  ClipOptions chosen_;
  SubspaceState* state_ = nullptr;
  Arena* basis_ = nullptr;
  Work work_ = Work::none;
  bool erase_ = false;     // tau = 0
  bool surveyed_ = false;  // the range of the entries is known, scale_ follows from it
  double scale_ = 1;
  double tau_ = 0;  // of the search, in scaled units
  int passes_ = 0;  // before the work under way
  SubspaceClipRoom search_;
  std::vector<double> gram_;  // lower triangle, row by row
  GramPlan plan_;
  ClipReport lowered_;  // by a search that gave up
  double sum_ = 0;
  static constexpr int kBins = 140;         // of 16 binary exponents each: float64 from its smallest number up
  std::array<double, 1 + kBins> survey_{};  // ranks with entries that are not finite, then ranks by their largest entry
  ClipReport report_;
};

}  // namespace spectralclip

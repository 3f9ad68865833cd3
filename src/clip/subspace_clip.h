// SPDX-License-Identifier: Apache-2.0
// One matrix on its way through `tracked` or `sketched`: search the leading triplets, lower those above tau in one read
// and write, look again where rounding may have left something, certify the rest. Driven from outside, work by work, so
// that the rows may lie on several ranks: run() does the local part, blocks() is what a reduction adds up, take() goes
// on. Everything that decides is in the sums or the same on all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "random/stream.h"
#include "spectralclip/executor.h"
#include "spectralclip/factors.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/reduction.h"
#include "spectralclip/report.h"
#include "subspace/state.h"
#include "subspace/work_rows.h"
#include "subspace/workspace.h"

namespace spectralclip {

// What one matrix may be summed as: Z, and the small sums; unused blocks have no rows.
using SumBlocks = std::array<SumBlock, 2>;

class SubspaceClip {
 public:
  virtual ~SubspaceClip() = default;
  [[nodiscard]] virtual bool done() const noexcept = 0;
  [[nodiscard]] virtual bool writes() const noexcept = 0;               // the next run() is an update
  virtual void run(Arena& memory, Executor& executor) = 0;              // a pass or an update over the local rows
  [[nodiscard]] virtual SumBlocks blocks() const noexcept = 0;          // its sums
  virtual void take() = 0;                                              // with the sums of all rows: what comes next
  [[nodiscard]] virtual const ClipReport& report() const noexcept = 0;  // once done
};

// G: the local rows of global_rows; an empty shard has none. tau > 0, infinity only measures. options.method is
// tracked or sketched. Outcomes that leave G as it was: not_finite, out_of_range.
struct SubspaceJob {
  Rows G;
  std::int64_t global_rows = 0;
  double tau = 0;
  const ClipOptions* options = nullptr;
  RandomStream stream;
  ClipFactors* factors = nullptr;  // where updates are written down
};

// Room for one: a clip that is driven begins in it without an allocation. job.options stays the caller's.
class SubspaceClipRoom {
 public:
  SubspaceClipRoom() = default;
  ~SubspaceClipRoom() { end(); }
  SubspaceClipRoom(const SubspaceClipRoom&) = delete;
  SubspaceClipRoom& operator=(const SubspaceClipRoom&) = delete;

  void begin(const SubspaceJob& job, SubspaceState& state, Arena& basis);
  void end() noexcept;
  [[nodiscard]] SubspaceClip* operator->() const noexcept { return clip_; }

 private:
  static constexpr std::size_t kBytes = 1536;
  alignas(16) std::byte room_[kBytes];
  SubspaceClip* clip_ = nullptr;
};

// Whether a search that does not settle ends in a dense method (clip_one) instead of a partial clip.
[[nodiscard]] inline bool finishes_dense(const ClipOptions& options) noexcept {
  return options.method != Method::sketched && !options.rank && options.exhausted == Exhausted::go_exact;
}

// The same from begin to end on one process, without an allocation.
[[nodiscard]] ClipReport clip_by_subspace(const SubspaceJob& job, SubspaceState& state, Workspace& workspace,
                                          Executor& executor);

}  // namespace spectralclip

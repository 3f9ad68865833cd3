// SPDX-License-Identifier: Apache-2.0
// One matrix on its way through `tracked` or `sketched`: search the leading triplets, lower those above tau in one read
// and write, look again where rounding may have left something, certify the rest. Driven from outside, work by work, so
// that the rows may lie on several ranks: run() does the local part, blocks() is what a reduction adds up, take() goes on.
#pragma once

#include <cstdint>
#include <memory>

#include "random/stream.h"
#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/report.h"
#include "subspace/reduction.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

class SubspaceClip {
 public:
  virtual ~SubspaceClip() = default;
  [[nodiscard]] virtual bool done() const noexcept = 0;
  virtual void run(Executor& executor) = 0;                        // a pass or an update over the local rows
  [[nodiscard]] virtual SumBlocks blocks() const noexcept = 0;     // its sums
  virtual void take() = 0;                                         // with the sums of all rows: what comes next
  [[nodiscard]] virtual const ClipReport& report() const noexcept = 0;  // once done
};

// G: the local rows (all of them by default: global_rows = G.rows). tau > 0, infinity only measures. options.method is
// tracked or sketched. Outcomes that leave G as it was: not_finite, out_of_range.
struct SubspaceJob {
  AnyMatrix G;
  std::int64_t global_rows = 0;
  double tau = 0;
  const ClipOptions* options = nullptr;
  RandomStream stream;
};
[[nodiscard]] std::unique_ptr<SubspaceClip> make_subspace_clip(const SubspaceJob& job, SubspaceState& state,
                                                               Workspace& workspace);

// Whether a search that does not settle ends in a dense method (clip_one) instead of a partial clip.
[[nodiscard]] inline bool finishes_dense(const ClipOptions& options) noexcept {
  return options.method != Method::sketched && !options.rank && options.exhausted == Exhausted::go_exact;
}

// The same from begin to end on one process, without an allocation.
[[nodiscard]] ClipReport clip_by_subspace(const SubspaceJob& job, SubspaceState& state, Workspace& workspace,
                                          Executor& executor);

}  // namespace spectralclip

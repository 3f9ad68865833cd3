// SPDX-License-Identifier: Apache-2.0
// The public edge for one matrix: everything a caller can get wrong is refused here, then clip_one does the work.
#include <algorithm>

#include "clip/clip_one.h"
#include "require.h"
#include "spectralclip/clip.h"

namespace spectralclip {
namespace {

void require_tau(double tau) { SPECTRALCLIP_REQUIRE(tau >= 0, "tau = ", tau, " is not a number >= 0"); }

void require_rank(const ClipOptions& options, std::int64_t rows, std::int64_t cols) {
  SPECTRALCLIP_REQUIRE(!options.rank || *options.rank <= std::min(rows, cols), "rank = ", options.rank.value_or(0),
                       " is above min(rows, cols) = ", std::min(rows, cols), " of a ", rows, " x ", cols, " matrix");
}

ClipReport clip_stateless(const AnyMatrix& G, double tau, const ClipOptions& options, ClipFactors* factors,
                          Executor& executor) {
  validate(G);
  validate(options);
  require_tau(tau);
  require_rank(options, G.rows, G.cols);
  SubspaceState state;
  Workspace workspace;
  ClipOptions chosen = options;
  if (chosen.exhausted == Exhausted::automatic) chosen.exhausted = Exhausted::go_exact;
  return clip_one(G, tau, chosen, RandomStream{.seed = options.seed}, state, workspace, executor, factors);
}

}  // namespace

ClipReport clip_singular_values(const AnyMatrix& G, double tau, const ClipOptions& options, Executor& executor) {
  return clip_stateless(G, tau, options, nullptr, executor);
}
ClipReport clip_singular_values(const AnyMatrix& G, double tau, const ClipOptions& options, ClipFactors& factors,
                                Executor& executor) {
  factors.clear();
  return clip_stateless(G, tau, options, &factors, executor);
}

struct MatrixClipper::Impl {
  std::int64_t rows;
  std::int64_t cols;
  ClipOptions options;
  std::uint64_t matrix_id;
  std::int64_t step = 0;
  SubspaceState state;
  Workspace workspace;
};

MatrixClipper::MatrixClipper(std::int64_t rows, std::int64_t cols, const ClipOptions& options,
                             std::uint64_t matrix_id) {
  SPECTRALCLIP_REQUIRE(rows >= 1 && cols >= 1, "a matrix of ", rows, " x ", cols, " has no entries");
  validate(options);
  require_rank(options, rows, cols);
  impl_ = std::make_unique<Impl>(
      Impl{.rows = rows, .cols = cols, .options = options, .matrix_id = matrix_id, .state = {}, .workspace = {}});
}

MatrixClipper::~MatrixClipper() = default;
MatrixClipper::MatrixClipper(MatrixClipper&&) noexcept = default;
MatrixClipper& MatrixClipper::operator=(MatrixClipper&&) noexcept = default;

ClipReport MatrixClipper::clip(const AnyMatrix& G, double tau, Executor& executor) {
  validate(G);
  require_tau(tau);
  SPECTRALCLIP_REQUIRE(G.rows == impl_->rows && G.cols == impl_->cols, "a clipper of ", impl_->rows, " x ", impl_->cols,
                       " was given ", G.rows, " x ", G.cols);
  const RandomStream stream{
      .seed = impl_->options.seed, .matrix_id = impl_->matrix_id, .step = static_cast<std::uint64_t>(impl_->step)};
  const ClipReport report = clip_one(G, tau, impl_->options, stream, impl_->state, impl_->workspace, executor);
  if (observed(report.status)) ++impl_->step;
  return report;
}

std::int64_t MatrixClipper::step() const noexcept { return impl_->step; }

}  // namespace spectralclip

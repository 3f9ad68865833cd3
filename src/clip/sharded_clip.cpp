// SPDX-License-Identifier: Apache-2.0
#include "clip/sharded_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "clip/cost.h"
#include "clip/dense.h"
#include "clip/entries.h"
#include "clip/gram_side.h"
#include "clip/scale_to_norm.h"

namespace spectralclip {
namespace {

constexpr int kBinWidth = 16;
constexpr int kLowestExponent = -1088;  // below that of the smallest float64

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Side whole_side(const Rows& G) noexcept { return G.mirrored ? Side::rows : Side::columns; }

}  // namespace

bool can_shard(Method method, std::int64_t rows, std::int64_t cols) noexcept {
  if (method == Method::gram) return cols <= rows;
  return method != Method::exact && method != Method::newton_schulz;
}

AnyMatrix ShardedClip::whole() const noexcept {
  return {nullptr, job_.G.type(), job_.rows, job_.G.cols(), job_.G.cols()};
}
// Small matrices go to gram even where the whole side is the longer one: its Gram matrix has the same values above tau.
bool ShardedClip::gram_shards() const noexcept {
  constexpr std::int64_t kSmall = 128;
  return job_.G.cols() <= std::max(job_.rows, kSmall);
}
Rows ShardedClip::scaled() const noexcept { return {job_.G.G, job_.G.mirrored, scale_}; }

void ShardedClip::begin(const ShardedJob& job, SubspaceState& state, Arena& basis) {
  job_ = job;
  chosen_ = *job.options;
  state_ = &state;
  basis_ = &basis;
  report_ = lowered_ = ClipReport{};
  surveyed_ = false;
  scale_ = 1;
  passes_ = 0;
  erase_ = job.treatment == Treatment::spectral && job.tau == 0;
  if (job.treatment != Treatment::spectral) {
    work_ = Work::squares;
  } else {
    start();
  }
}

// As clip_one chooses on one process. A search that must finish everything and has no gram to end in goes on until its
// basis spans the matrix.
void ShardedClip::start() {
  chosen_.method = choose_method(chosen_, whole(), *state_);
  if (chosen_.method == Method::gram && !gram_shards()) chosen_.method = Method::tracked;
  if (finishes_dense(chosen_) && !gram_shards()) go_on_to_the_end();
  if (chosen_.method == Method::gram) {
    start_gram();
  } else {
    start_search();
  }
}

void ShardedClip::go_on_to_the_end() {
  constexpr std::int64_t kSpare = 8;  // a pass is not begun without room for some columns
  const std::int64_t all = std::min(job_.rows, job_.G.cols()) + kSpare;
  chosen_.max_passes = std::max<int>(chosen_.max_passes, static_cast<int>(all));
  chosen_.max_columns = std::max(chosen_.max_columns, all);
  chosen_.exhausted = Exhausted::report;
}

void ShardedClip::start_search() {
  tau_ = erase_ ? kInfinite : job_.tau * scale_;
  search_.begin({scaled(), job_.rows, tau_, &chosen_, job_.stream}, *state_, *basis_);
  work_ = Work::search;
}

void ShardedClip::start_gram() {
  const auto r = static_cast<std::size_t>(job_.G.cols());
  gram_.resize(r * (r + 1) / 2);
  work_ = Work::gram;
}

bool ShardedClip::writes() const noexcept {
  if (work_ == Work::search) return search_->writes();
  return work_ == Work::lower || work_ == Work::scale || work_ == Work::erase;
}

// ---- the local part

void ShardedClip::run(Arena& memory, Executor& executor) {
  const bool empty = job_.G.rows() == 0;
  switch (work_) {
    case Work::search:
      return search_->run(memory, executor);
    case Work::gram: {
      const Eigen::Index r = job_.G.cols();
      std::fill(gram_.begin(), gram_.end(), 0.0);
      if (empty) return;
      const Eigen::MatrixXd A = gram_of(job_.G.G, whole_side(job_.G), scale_);
      double* out = gram_.data();
      for (Eigen::Index i = 0; i < r; ++i)
        for (Eigen::Index j = 0; j <= i; ++j) *out++ = A(i, j);
      return;
    }
    case Work::lower: {
      Magnitude size;
      size.scale = scale_;
      size.unscale = 1 / scale_;
      if (!empty) remove_directions(job_.G.G, whole_side(job_.G), size, plan_.Q, plan_.weight);
      return;
    }
    case Work::squares:
      sum_ = empty ? 0.0 : sum_of_squares(job_.G.G, executor);
      return;
    case Work::scale:
      if (!empty) scale_entries(job_.G.G, job_.tau / report_.norm_before, executor);
      return;
    case Work::erase:
      if (!empty) fill_zero(job_.G.G);
      return;
    case Work::survey:
      return survey_entries();
    case Work::none:
      return;
  }
}

void ShardedClip::survey_entries() {
  survey_.fill(0);
  const double largest = job_.G.rows() == 0 ? 0.0 : max_abs_entry(job_.G.G);
  if (!std::isfinite(largest)) {
    survey_[0] = 1;
  } else if (largest > 0) {
    survey_[static_cast<std::size_t>(1 + (std::ilogb(largest) - kLowestExponent) / kBinWidth)] = 1;
  }
}

SumBlocks ShardedClip::blocks() const noexcept {
  const auto run_of = [](const double* data, std::size_t count) {
    const auto n = static_cast<std::int64_t>(count);
    return SumBlocks{SumBlock{const_cast<double*>(data), 1, n, n, ScalarType::float64}};
  };
  if (work_ == Work::search) return search_->blocks();
  if (work_ == Work::gram) return run_of(gram_.data(), gram_.size());
  if (work_ == Work::squares) return run_of(&sum_, 1);
  if (work_ == Work::survey) return run_of(survey_.data(), survey_.size());
  return {};
}

// ---- what follows from the sums

void ShardedClip::take() {
  switch (work_) {
    case Work::search:
      search_->take();
      return search_->done() ? take_search() : void();
    case Work::gram:
      return take_gram();
    case Work::squares:
      return take_squares();
    case Work::survey:
      return take_survey();
    case Work::lower:
    case Work::scale:
    case Work::erase:
      work_ = Work::none;
      return;
    case Work::none:
      return;
  }
}

void ShardedClip::take_search() {
  const ClipReport found = search_->report();
  const ClipStatus status = found.status;
  if (status == ClipStatus::out_of_range) {
    if (!surveyed_) {
      work_ = Work::survey;
      return;
    }
    return end_scaled(found);
  }
  const bool unfinished = status == ClipStatus::not_converged || status == ClipStatus::rank_exhausted;
  if (unfinished && finishes_dense(chosen_) && gram_shards()) {
    passes_ += found.passes;
    if (found.clipped > 0 && found.norm_after > 0) lowered_ = found;
    return start_gram();
  }
  end_scaled(found);
}

void ShardedClip::take_gram() {
  const Eigen::Index r = job_.G.cols();
  Eigen::MatrixXd A = Eigen::MatrixXd::Zero(r, r);
  const double* in = gram_.data();
  for (Eigen::Index i = 0; i < r; ++i)
    for (Eigen::Index j = 0; j <= i; ++j) A(i, j) = *in++;
  const double energy = A.trace();
  const bool wide = job_.G.type() != ScalarType::float64;  // squares of 32-bit entries are harmless in double
  const bool in_range = wide || surveyed_ ? energy > 0 : energy > 1e-200 && energy < 1e200;
  if (!(std::isfinite(energy) && in_range)) {
    if (!surveyed_) {
      work_ = Work::survey;
      return;
    }
    return start_search();
  }
  Magnitude size;
  size.scale = scale_;
  size.unscale = 1 / scale_;
  const AnyMatrix shape = whole();
  const DenseProblem problem(shape, erase_ ? kInfinite : job_.tau, size);
  plan_ = plan_gram(problem, std::move(A));
  if (!plan_.suited) {  // one process would factorise the matrix itself: here the search goes on to the end
    go_on_to_the_end();
    chosen_.method = Method::tracked;
    chosen_.margin = chosen_.tolerance = job_.G.type() == ScalarType::float64 ? 1e-9 : 1e-5;
    passes_ += 2;
    return start_search();
  }
  ClipReport report = plan_.report;
  report.passes += passes_;
  if (lowered_.clipped > 0) {
    report.clipped = std::max(report.clipped, lowered_.clipped);
    report.sigma_max = lowered_.sigma_max;
    report.norm_before = lowered_.norm_before;
    const double share = report.norm_after / report.norm_before;
    report.removed_energy = std::clamp(1 - share * share, 0.0, 1.0);
  }
  if (report.status == ClipStatus::ok) state_->clipped_lately = report.clipped;
  end(report);
  if (work_ == Work::none && plan_.report.clipped > 0 && !chosen_.observe_only && !erase_) work_ = Work::lower;
}

void ShardedClip::take_squares() {
  const double norm = std::sqrt(sum_);
  const bool measures = job_.treatment == Treatment::skip;
  report_ = scaling_report(norm, measures ? kInfinite : job_.tau, job_.G.type());
  work_ = report_.clipped > 0 && !chosen_.observe_only ? Work::scale : Work::none;
}

void ShardedClip::take_survey() {
  surveyed_ = true;
  if (survey_[0] > 0) return end(not_finite_report(job_.tau, chosen_.method));
  const auto last = std::find_if(survey_.rbegin(), survey_.rend(), [](double ranks) { return ranks > 0; });
  if (last == survey_.rend()) {  // all zero: nothing to do
    ClipReport report;
    report.method = chosen_.method;
    report.tau = job_.tau;
    report.passes = 1;
    return end(report);
  }
  const int bin = static_cast<int>(survey_.rend() - last) - 2;
  const int exponent = kLowestExponent + (bin + 1) * kBinWidth;
  const int most = job_.G.type() == ScalarType::float64 ? 1000 : 120;  // scale and its inverse are normal numbers
  scale_ = std::ldexp(1.0, -std::clamp(exponent, -most, most));
  passes_ += 1;
  if (gram_shards() && job_.tau * scale_ < kInfinite) return start_gram();
  start_search();
}

// ---- the end

void ShardedClip::end_scaled(ClipReport report) {
  report.passes += passes_;
  if (scale_ != 1) {
    for (double* x : {&report.tau, &report.sigma_max, &report.norm_before, &report.norm_after, &report.sigma_bound})
      *x /= scale_;
    if (report.status == ClipStatus::out_of_range || !std::isfinite(report.norm_before)) {
      report.status = ClipStatus::out_of_range;
    }
  }
  if (!erase_) report.tau = job_.tau;
  end(report);
}

// tau = 0 erases the gradient (the paper's first step); its size is still measured.
void ShardedClip::end(const ClipReport& report) {
  report_ = report;
  work_ = Work::none;
  search_.end();
  if (!erase_) return;
  report_.tau = 0;
  if (report_.status == ClipStatus::not_finite || report_.sigma_max == 0) return;
  report_.status = ClipStatus::ok;
  report_.clipped = std::min(job_.rows, job_.G.cols());
  report_.norm_after = 0;
  report_.removed_energy = 1;
  report_.sigma_bound = 0;
  report_.bound_kind = BoundKind::certain;
  if (!chosen_.observe_only) work_ = Work::erase;
}

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "clip/subspace_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "clip/cost.h"
#include "clip/dead_band.h"
#include "clip/factors.h"
#include "clip/stage_clock.h"
#include "kernels/fused_pass.h"
#include "subspace/certificate.h"
#include "subspace/search.h"
#include "subspace/work_rows.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kSketchedRank = 10;  // the paper's r
constexpr int kUnlimitedPasses = 1000;      // their cost is what ends them
constexpr double kColdSigma = 1e-3;         // accuracy of sigma_max that a cold start works for
constexpr double kWarmSigma = 1e-2;         // … and that a tracked step is content with before it reads once more

SearchOptions search_options(const ClipOptions& options, double tau, const Rows& G, std::int64_t rows, bool warm) {
  SearchOptions s;
  const std::int64_t smaller = std::min(rows, G.cols());
  s.tau = tau;
  // A quarter of the margin for the level leaves the rest for what vectors off by `tolerance` and storing do, so that
  // a clipped matrix clipped again is not written.
  s.margin = options.margin;
  s.level = tau * (1 + std::max(dead_band(G.type()), options.margin / 4));
  s.rank = options.rank.value_or(0);
  s.tolerance = options.tolerance;
  s.sigma_tolerance = warm ? kWarmSigma : kColdSigma;
  s.max_passes = options.max_passes;
  s.max_columns = options.max_columns;
  s.max_kept = std::max(kLeastKept, options.max_columns / 2);
  if (finishes_dense(options)) {  // whatever it costs, by the cheaper way
    s.max_cost = gram_cost(rows, G.cols());
    s.max_passes = kUnlimitedPasses;
    s.max_columns = std::max(options.max_columns, widest_worth_gram(rows, G.cols()));
  }
  if (options.method == Method::sketched) {
    s.rank = options.rank.value_or(std::min(kSketchedRank, smaller));
    s.oversampling = options.oversampling;
    s.power_passes = options.power_passes;
  }
  return s;
}

template <class T>
class Clip final : public SubspaceClip {
 public:
  Clip(const SubspaceJob& job, SubspaceState& state, Arena& basis)
      : G_(job.G),
        rows_(job.global_rows),
        options_(*job.options),
        stream_(job.stream),
        state_(state),
        basis_(basis),
        wanted_(search_options(options_, job.tau, G_, rows_, state.kept > 0 && state.cols == G_.cols())),
        clock_(options_.measure_time),
        factors_(job.factors) {
    report_.method = options_.method;
    report_.tau = job.tau;
    begin_round();
  }

  [[nodiscard]] bool done() const noexcept override { return work_ == Work::none; }
  [[nodiscard]] const ClipReport& report() const noexcept override { return report_; }

  [[nodiscard]] bool writes() const noexcept override { return work_ == Work::update; }

  void run(Arena& memory, Executor& executor) override {
    if (work_ == Work::pass) {
      run_pass<T>(G_, search_->columns(), search_->result(), memory, executor);
    } else {
      norm_squared_ = run_update<T>(G_, search_->vectors(), lowering_, search_->spare(), memory, executor);
    }
  }

  [[nodiscard]] SumBlocks blocks() const noexcept override {
    if (work_ == Work::update) return {SumBlock{const_cast<double*>(&norm_squared_), 1, 1, 1, ScalarType::float64}};
    const PassResult<T> result = search_->result();
    return {SumBlock{result.Zt, result.k, G_.cols(), kernels::padded(G_.cols()), kScalarTypeOf<T>},
            SumBlock{result.sums, 1, result.count(), result.count(), ScalarType::float64}};
  }

  void take() override {
    if (work_ == Work::update) {
      after_update();
    } else {
      const bool more = search_->take();
      if (more) return;
      clock_.lap(Stage::pass);
      after_search();
    }
  }

 private:
  enum class Work : std::uint8_t { pass, update, none };

  void begin_round() {
    SearchOptions options = wanted_;
    options.max_passes = std::max(1, wanted_.max_passes - passes_);
    options.max_cost -= cost_;
    stream_.pass = static_cast<std::uint32_t>(passes_);
    search_.emplace(rows_, G_.cols(), options, stream_, state_, basis_);
    work_ = Work::pass;
  }

  void after_search() {
    const SearchOutcome outcome = search_->outcome();
    passes_ += search_->passes();
    cost_ += search_->cost();
    report_.passes = passes_;
    if (outcome == SearchOutcome::out_of_range) return end_out_of_range();
    search_->finish();
    if (options_.method == Method::tracked) search_->remember();
    if (round_ == 0) first_findings();
    if (!search_->settled() && finishes_dense(options_)) return end_unfinished();
    count_lowered();
    if (lowering_ > 0 && !options_.observe_only) return begin_update();
    norm_squared_ = std::max(search_->norm_squared() - removed_inside(), 0.0);
    finish();
  }

  void first_findings() {
    report_.sigma_max = search_->sigma_max();
    report_.norm_before = std::sqrt(search_->norm_squared());
    report_.columns = search_->found();
    report_.error_estimate = search_->judgement().error;
  }

  // What a later round finds below relowered_ is what rounding left of values that were lowered before: they are
  // lowered again, the others count, and count against a given rank.
  void count_lowered() {
    const double* sigma = search_->sigma();
    const std::int64_t above = search_->above();
    const std::int64_t fresh = std::count_if(sigma, sigma + above, [&](double s) { return s > relowered_; });
    const std::int64_t room = options_.rank ? *options_.rank - report_.clipped : fresh;
    beyond_rank_ = fresh > room;
    lowering_ = beyond_rank_ ? room : above;
    report_.clipped += std::min(fresh, room);
    state_.clipped_lately = report_.clipped;
  }

  void begin_update() {
    T* coefficient = search_->spare();
    for (std::int64_t i = 0; i < lowering_; ++i) {
      coefficient[i] = static_cast<T>(1 - report_.tau / search_->sigma()[i]);
    }
    factors_.vectors(search_->vectors(), lowering_, G_.cols(), kernels::padded(G_.cols()), coefficient);
    work_ = Work::update;
  }

  // Rounding of the update is eps sigma_max: where that is not small against the margin the matrix is searched once
  // more, and what rounding left above tau is lowered too.
  void after_update() {
    clock_.lap(Stage::update);
    const bool loud = update_rounding() > room_for_rounding() / 8;
    const bool read_on = options_.method != Method::sketched;  // Algorithm 2 reads as often as it was told
    const bool hidden = search_->judgement().wide_range && !rank_used_up();
    if (read_on && (loud || hidden) && passes_ < wanted_.max_passes) {
      const double stored = needs_conversion(G_.type()) ? storage_epsilon(G_.type()) * std::sqrt(norm_squared_) : 0.0;
      relowered_ = report_.tau + update_rounding() + stored;
      ++round_;
      return begin_round();
    }
    finish();
  }

  [[nodiscard]] double update_rounding() const { return 8 * work_epsilon(G_.type()) * search_->sigma()[0]; }
  [[nodiscard]] double room_for_rounding() const {
    return report_.tau * std::max(options_.margin, dead_band(G_.type()));
  }

  [[nodiscard]] double removed_inside() const {
    double removed = 0;
    for (std::int64_t i = 0; i < lowering_; ++i) {
      const double s = search_->sigma()[i];
      removed += (s - report_.tau) * (s + report_.tau);
    }
    return removed;
  }

  // The caller goes on with a dense method: nothing is written by this round.
  void end_unfinished() {
    work_ = Work::none;
    if (round_ > 0) report_.norm_after = std::sqrt(search_->norm_squared());
    report_.status = ClipStatus::not_converged;
    report_.seconds = clock_.seconds();
  }

  void end_out_of_range() {
    work_ = Work::none;
    const double norm_squared = search_->norm_squared();
    report_.norm_before = report_.norm_after = std::sqrt(norm_squared);
    report_.status = ClipStatus::out_of_range;
    if (norm_squared == 0 || round_ > 0) return;
    report_.sigma_bound = report_.norm_before;
  }

  void finish() {
    report_.norm_after = std::sqrt(norm_squared_);
    const double before = report_.norm_before * report_.norm_before;
    // Accurate values keep the digits of small shares.
    const bool by_values =
        options_.observe_only || (round_ == 0 && search_->settled() && options_.method == Method::tracked);
    const double removed = by_values ? removed_inside() : before - norm_squared_;
    report_.removed_energy = report_.clipped > 0 ? std::clamp(removed / before, 0.0, 1.0) : 0.0;
    fill_bound();
    report_.status = status();
    report_.seconds = clock_.seconds();
    work_ = Work::none;
  }

  // What is left: G' G'^T = [[A, E], [E^T, H H^T]] with A diagonal, tau^2 for the lowered and sigma_i^2 for the others,
  // and couplings e_i of at most sigma_i h sine_i, tau^2 / sigma_i h sine_i for the lowered (numerics.md, Theorem 1).
  void fill_bound() {
    const double tau = report_.tau;
    const double certain = search_->energy_left();
    const double proven = std::min(search_->unseen().bound, certain);
    const double h = search_->complete() ? 0.0 : proven;
    const double* sigma = search_->sigma();
    const std::int64_t above = lowering_;
    const double left = coupled_eigenvalue(search_->found(), h * h, [&](std::int64_t i) {
      const double s = sigma[i];
      const double coupling = (i < above ? tau * tau / s : s) * h * search_->sine()[i];
      const double grown = 1 + (s > 0 ? search_->noise()[i] / (s * s) : 0.0);
      return std::pair((i < above ? tau * tau : s * s) * grown, coupling * coupling);
    });
    const double rounding = dead_band(G_.type());
    const double unit = search_->sigma()[0];
    const double stored = report_.clipped > 0 && needs_conversion(G_.type()) ? storage_epsilon(G_.type()) : 0.0;
    report_.sigma_bound = std::sqrt(left) + rounding * (unit + report_.norm_after) + stored * report_.norm_after;
    report_.bound_kind = search_->complete() || proven >= certain ? BoundKind::certain : BoundKind::estimated;
    const double by_norm = report_.norm_after * (1 + rounding + stored);
    if (by_norm < report_.sigma_bound && (lowering_ == 0 || !options_.observe_only)) {
      report_.sigma_bound = by_norm;
      report_.bound_kind = BoundKind::certain;
    }
    if (round_ == 0 && lowering_ == 0)
      report_.sigma_max = std::min(report_.sigma_max, report_.sigma_bound);  // an estimate gives way to proof
    largest_left_ = above < search_->found() ? sigma[above] : 0.0;
  }
  [[nodiscard]] ClipStatus status() const {
    const Judgement& j = search_->judgement();
    const double goal = report_.tau * (1 + options_.margin);
    if (beyond_rank_) return ClipStatus::rank_exhausted;
    if (report_.sigma_bound <= goal && j.error <= j.error_allowed) return ClipStatus::ok;
    if (j.rank_full) {
      const bool more = search_->unseen().bound > goal || j.beyond_rank;
      if (more && !search_->complete()) return ClipStatus::rank_exhausted;
      if (largest_left_ > goal) return ClipStatus::rank_exhausted;
    }
    // Values near tau drown in the rounding of the largest, unless there are none because all were lowered.
    const bool all_lowered =
        lowering_ == std::min(rows_, G_.cols()) && update_rounding() <= options_.margin * report_.tau;
    const bool loud = lowering_ > 0 && update_rounding() > room_for_rounding() / 2;  // and nobody looked again
    const bool unsure = loud || search_->outcome() == SearchOutcome::not_converged || (j.wide_range && !all_lowered);
    if (search_->outcome() == SearchOutcome::exhausted || (unsure && rank_used_up())) return ClipStatus::rank_exhausted;
    return unsure ? ClipStatus::not_converged : ClipStatus::ok;
  }
  [[nodiscard]] bool rank_used_up() const {
    return wanted_.rank > 0 && wanted_.rank < std::min(rows_, G_.cols()) && report_.clipped >= wanted_.rank;
  }

  Rows G_;
  std::int64_t rows_;
  const ClipOptions& options_;
  RandomStream stream_;
  SubspaceState& state_;
  Arena& basis_;
  SearchOptions wanted_;
  StageClock clock_;
  FactorWriter factors_;
  std::optional<SubspaceSearch<T>> search_;
  Work work_ = Work::none;
  int passes_ = 0;
  double cost_ = 0;
  int round_ = 0;
  std::int64_t lowering_ = 0;  // leading triplets that this round lowers
  double relowered_ = 0;
  bool beyond_rank_ = false;
  double norm_squared_ = 0;
  double largest_left_ = 0;
  ClipReport report_;
};

template <class T>
ClipReport run_to_end(const SubspaceJob& job, SubspaceState& state, Workspace& workspace, Executor& executor) {
  Clip<T> clip(job, state, workspace.basis);
  while (!clip.done()) {
    clip.run(workspace.pass, executor);
    clip.take();
  }
  return clip.report();
}

}  // namespace

void SubspaceClipRoom::begin(const SubspaceJob& job, SubspaceState& state, Arena& basis) {
  static_assert(sizeof(Clip<double>) <= kBytes && sizeof(Clip<float>) <= kBytes && alignof(Clip<double>) <= 16);
  end();
  if (job.G.type() == ScalarType::float64) {
    clip_ = new (room_) Clip<double>(job, state, basis);
  } else {
    clip_ = new (room_) Clip<float>(job, state, basis);
  }
}

void SubspaceClipRoom::end() noexcept {
  if (clip_ != nullptr) clip_->~SubspaceClip();
  clip_ = nullptr;
}

ClipReport clip_by_subspace(const SubspaceJob& job, SubspaceState& state, Workspace& workspace, Executor& executor) {
  if (job.G.type() == ScalarType::float64) return run_to_end<double>(job, state, workspace, executor);
  return run_to_end<float>(job, state, workspace, executor);
}

}  // namespace spectralclip

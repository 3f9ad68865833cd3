// SPDX-License-Identifier: Apache-2.0
#include "subspace/search.h"

#include <algorithm>
#include <cmath>

#include "kernels/small_products.h"
#include "subspace/search_limits.h"

namespace spectralclip {
namespace {

using kernels::padded;

// Sums of squares outside this range lose entries to overflow or underflow of T; such a matrix goes to a dense method.
template <class T>
bool in_range(double norm_squared) {
  return norm_squared > (sizeof(T) == 4 ? 1e-24 : 1e-200) && norm_squared < (sizeof(T) == 4 ? 1e30 : 1e200);
}

constexpr double kColdSettled = 1e-3;  // relative change of sigma_max at which a cold start may stop
constexpr double kSigmaSettled =
    0.03;  // correction of sigma_max (search_estimates.cpp) beyond which one pass more is due

}  // namespace

template <class T>
SubspaceSearch<T>::SubspaceSearch(const AnyMatrix& G, const SearchOptions& options, const RandomStream& stream,
                                  SubspaceState& state, Workspace& workspace, Executor& executor)
    : G_(G), options_(options), stream_(stream), state_(state), workspace_(workspace), executor_(executor) {
  if (sketched() || state.cols != G.cols) state_.kept = 0;
  const std::int64_t fixed = options.rank + (sketched() ? options.oversampling : kFreshColumns);
  const std::int64_t free = state.columns > 0 && state.cols == G.cols ? state.columns : kFirstColumns;
  book(even(options.rank > 0 ? fixed : free));
  cold_ = kept_ == 0;
}

template <class T>
std::int64_t SubspaceSearch<T>::capacity() const noexcept {
  if (sketched()) return booked_;
  return options_.rank > 0 ? options_.rank : booked_ - kFreshColumns;
}

template <class T>
std::int64_t SubspaceSearch<T>::smaller_side() const noexcept {
  return std::min(G_.rows, G_.cols);
}

template <class T>
bool SubspaceSearch<T>::complete() const noexcept {
  return ritz_.independent >= smaller_side();
}

template <class T>
double SubspaceSearch<T>::captured_energy() const noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < k_; ++i) sum += ritz_.sigma[i] * ritz_.sigma[i];
  return sum;
}

template <class T>
bool SubspaceSearch<T>::read_matrix() {
  norm_squared_ = run_pass<T>(G_, Vt_, Zt_, ritz_.S, buffers_, executor_);
  ++passes_;
  ++passes_at_width_;
  return in_range<T>(norm_squared_);
}

template <class T>
void SubspaceSearch<T>::analyse() {
  kernels::gram_rows(Zt_, k_, G_.cols, padded(G_.cols), ritz_.T);
  solve_ritz(ritz_, kDrop<T>);
  if (!narrow_) {  // a narrow pass has nothing to add to what the wide one before it saw elsewhere
    probed_ = fresh_;
    if (fresh_ > 0) probe_fresh_columns(ritz_, kept_, kDrop<T>);
  }
  above_ = std::count_if(ritz_.sigma, ritz_.sigma + k_, [&](double s) { return s > options_.level; });
  turn_known_ = false;
}

// A column of W that nearly depends on the others amplified rounding (kDrop); once the vectors found go in as columns
// theirs are nearly orthogonal.
template <class T>
bool SubspaceSearch<T>::swamped() const noexcept {
  constexpr double kHarmless = 8;
  return amplification() > kHarmless && passes_at_width_ == 1;
}

template <class T>
typename SubspaceSearch<T>::Next SubspaceSearch<T>::decide() {
  if (sketched()) {
    const bool last = passes_ > options_.power_passes;
    if (last) estimate_error();
    return last ? Next::done : Next::again;
  }
  if (complete()) return swamped() && options_.max_passes > 1 ? Next::again : Next::done;
  if (options_.rank == 0 && above_ >= capacity()) {
    if (booked_ < options_.max_columns) return Next::grow;
    outcome_ = SearchOutcome::exhausted;
    return Next::done;
  }
  estimate_error();
  const bool cold_unsettled = cold_ && std::abs(ritz_.sigma[0] - ritz_.previous[0]) > kColdSettled * ritz_.sigma[0];
  const bool unseen = !probed_again_ && probe_fires();
  const bool rising = below_may_rise();
  if (passes_at_width_ >= options_.max_passes) {
    if (rising) outcome_ = SearchOutcome::unsettled;
    return Next::done;
  }
  if (unseen) probed_again_ = true;
  const bool unsure = above_ == 0 && sigma_correction() > kSigmaSettled;
  if (cold_unsettled || rising || unsure) return Next::again;
  if (!unseen && error_estimate_ <= options_.tolerance) return Next::done;
  return may_narrow() ? Next::sharpen : Next::again;
}

template <class T>
SearchOutcome SubspaceSearch<T>::run() {
  for (;;) {
    fill_fresh_columns();
    deflate_fresh_columns();
    if (!read_matrix()) return SearchOutcome::out_of_range;
    analyse();
    const Next next = decide();
    if (next == Next::grow) {
      grow();
      continue;
    }
    if (next == Next::done) sigma_max_ = ritz_.sigma[0] * (1 + sigma_correction());
    const std::int64_t wanted = next == Next::done ? std::max(capacity(), above_) : capacity();
    take_vectors(std::min(wanted, ritz_.independent));
    if (next == Next::done) break;
    if (next == Next::sharpen && !narrow_) narrow(worth_sharpening());
  }
  limit_to_rank();
  return outcome_;
}

template <class T>
void SubspaceSearch<T>::limit_to_rank() noexcept {
  if (options_.rank == 0 || above_ <= options_.rank) return;
  above_ = options_.rank;
  outcome_ = SearchOutcome::exhausted;
}

template <class T>
bool SubspaceSearch<T>::look_again(std::int64_t count) {
  if (!narrow_ && may_narrow()) narrow(count);
  fill_fresh_columns();
  deflate_fresh_columns();
  if (!read_matrix()) return false;
  analyse();
  take_vectors(std::min(std::max(capacity(), above_), ritz_.independent));
  limit_to_rank();
  return true;
}

template class SubspaceSearch<float>;
template class SubspaceSearch<double>;

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
#include "subspace/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "factor/small_eigen.h"
#include "kernels/small_products.h"
#include "random/uniform.h"

namespace spectralclip {
namespace {

using kernels::padded;

// A column of W counts as a combination of earlier ones when less than this share of its square is new: rounding of Z,
// eps sigma_max, is amplified by the inverse root of it in B = L^-1 Z^T, to 1e-4 sigma_max (float) at worst.
template <class T>
constexpr double kDrop = sizeof(T) == 4 ? 1e-6 : 1e-10;

// Sums of squares outside this range lose entries to overflow or underflow of T; such a matrix goes to a dense method.
template <class T>
bool in_range(double norm_squared) {
  return norm_squared > (sizeof(T) == 4 ? 1e-24 : 1e-200) && norm_squared < (sizeof(T) == 4 ? 1e30 : 1e200);
}

std::int64_t even(std::int64_t k) { return (k + 1) / 2 * 2; }

constexpr double kColdSettled = 1e-3;    // relative change of sigma_max at which a cold start may stop
constexpr double kErrorSafety = 2.0;     // measured true / estimated error: median 2 with fresh columns (numerics.md)
constexpr std::int64_t kCalmSteps = 16;  // steps before a width that is no longer needed is halved

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
  if (sketched()) return k_;
  return options_.rank > 0 ? options_.rank : k_ - kFreshColumns;
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

// Memory for width k; the vectors in the state become the kept columns.
template <class T>
void SubspaceSearch<T>::book(std::int64_t k) {
  k_ = k;
  buffers_ = PassBuffers<T>::plan(G_, k, executor_);
  const std::int64_t block = k * padded(G_.cols);
  workspace_.reserve(buffers_.bytes() + Ritz::bytes(k) + 3 * Workspace::padded_bytes<T>(block));
  buffers_.grant(workspace_);
  ritz_ = Ritz::grant(workspace_, k);
  Vt_ = workspace_.take<T>(block);
  Zt_ = workspace_.take<T>(block);
  spare_ = workspace_.take<T>(block);
  kept_ = std::min(state_.kept, capacity());
  for (std::int64_t i = 0; i < kept_; ++i) {
    T* row = Vt_ + i * padded(G_.cols);
    std::copy_n(state_.V.data() + i * G_.cols, G_.cols, row);
    std::fill(row + G_.cols, row + padded(G_.cols), T{0});
  }
}

template <class T>
void SubspaceSearch<T>::fill_fresh_columns() {
  fresh_ = k_ - kept_;
  stream_.pass = static_cast<std::uint32_t>(passes_);
  for (std::int64_t i = kept_; i < k_; ++i) {
    T* row = Vt_ + i * padded(G_.cols);
    fill_uniform(stream_, static_cast<std::uint32_t>(i), row, G_.cols);
    std::fill(row + G_.cols, row + padded(G_.cols), T{0});
  }
}

// Fresh columns lose what they share with the kept ones. H (ritz.h) vanishes on the kept columns, so the probe stays
// what it was; but W of a fresh column is no longer swamped by a spike that is already held.
template <class T>
void SubspaceSearch<T>::deflate_fresh_columns() {
  if (kept_ == 0 || fresh_ == 0) return;
  const std::int64_t ld = padded(G_.cols);
  T* fresh = Vt_ + kept_ * ld;
  double* mix = ritz_.N;  // fresh x k: [-shared, identity]
  double* shared = ritz_.P;
  kernels::cross_gram_rows(fresh, fresh_, Vt_, kept_, G_.cols, ld, shared);
  std::fill(mix, mix + fresh_ * k_, 0.0);
  for (std::int64_t f = 0; f < fresh_; ++f) {
    for (std::int64_t i = 0; i < kept_; ++i) mix[f * k_ + i] = -shared[f * kept_ + i];
    mix[f * k_ + kept_ + f] = 1;
  }
  kernels::combine_rows(mix, fresh_, k_, k_, Vt_, G_.cols, ld, spare_);
  std::copy(spare_, spare_ + fresh_ * ld, fresh);
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
  probe_ = fresh_ > 0 ? probe_fresh_columns(ritz_, kept_, kDrop<T>) : Probe{};
  above_ = std::count_if(ritz_.sigma, ritz_.sigma + k_, [&](double s) { return s > options_.level; });
}

// Largest singular value that may be missing from the subspace, as a scale for convergence: the last one found, or the
// root mean square of what is unseen. In a cold start directions beyond the kept ones are known from random columns
// alone and count as missing too.
template <class T>
double SubspaceSearch<T>::next_sigma() const noexcept {
  if (complete()) return 0;
  const double unseen = std::max(norm_squared_ - captured_energy(), 0.0);
  const auto count = static_cast<double>(smaller_side() - ritz_.independent);
  const std::int64_t found = std::max<std::int64_t>(ritz_.independent, 1) - 1;
  const double last = ritz_.sigma[cold_ && !sketched() ? std::min(std::max(kept_, above_), found) : found];
  return std::max(last, std::sqrt(unseen / count));
}

template <class T>
void SubspaceSearch<T>::compute_sines(std::int64_t count) {
  kernels::gram_rows(Vt_, k_, G_.cols, padded(G_.cols), ritz_.N);
  kernels::cross_gram_rows(Vt_, k_, Zt_, k_, G_.cols, padded(G_.cols), ritz_.P);
  solve_sines(ritz_, count);
}

// Relative error of U diag(sigma - tau) V^T over what exceeds level: vector i is off by sine_i rho_i^2, its sigma by
// sigma_i (sine_i rho_i)^2 / 2, with rho_i = next / sigma_i.
template <class T>
void SubspaceSearch<T>::estimate_error() {
  error_estimate_ = 0;
  if (above_ == 0 || complete()) return;
  compute_sines(above_);
  const double next = next_sigma();
  double error = 0;
  double removed = 0;
  for (std::int64_t i = 0; i < above_; ++i) {
    const double sigma = ritz_.sigma[i];
    const double rho = next / sigma;
    const double excess = sigma - options_.tau;
    const double turned = ritz_.sine[i] * rho * rho * excess;
    const double shortened = 0.5 * sigma * (ritz_.sine[i] * rho) * (ritz_.sine[i] * rho);
    error += turned * turned + shortened * shortened;
    removed += excess * excess;
  }
  error_estimate_ = kErrorSafety * std::sqrt(error / removed);
}

// Fresh columns saw something in one direction that the kept ones do not hold and that may exceed level: the spread of
// the probe ignores what is seen equally in all directions, i.e. the bulk of the spectrum.
template <class T>
bool SubspaceSearch<T>::probe_fires() const noexcept {
  if (fresh_ == 0 || complete()) return false;
  const double seen = std::sqrt(std::sqrt(std::max(probe_.largest - probe_.smallest, 0.0)));
  return seen > options_.level;
}

// The largest value not above level: could it be, once converged? One pass in: by its own angle; later: by its growth.
template <class T>
bool SubspaceSearch<T>::below_may_rise() {
  if (above_ >= ritz_.independent || complete() || std::isinf(options_.level)) return false;
  const double sigma = ritz_.sigma[above_];
  const double before = ritz_.previous[above_];
  if (before > 0) return sigma * std::max(1.0, sigma / before) > options_.level;
  const double rho = std::min(1.0, next_sigma() / sigma);
  if (sigma * (1 + rho * rho) <= options_.level) return false;
  compute_sines(above_ + 1);
  const double sine = ritz_.sine[above_];
  return sigma * (1 + sine * sine * rho * rho) > options_.level;
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
    if (k_ < options_.max_columns) return Next::grow;
    outcome_ = SearchOutcome::exhausted;
    return Next::done;
  }
  estimate_error();
  const bool cold_unsettled = cold_ && std::abs(ritz_.sigma[0] - ritz_.previous[0]) > kColdSettled * ritz_.sigma[0];
  const bool look_again = !probed_again_ && probe_fires();
  const bool rising = below_may_rise();
  if (passes_at_width_ >= options_.max_passes) {
    if (rising) outcome_ = SearchOutcome::unsettled;
    return Next::done;
  }
  if (look_again) probed_again_ = true;
  const bool again = cold_unsettled || look_again || rising || error_estimate_ > options_.tolerance;
  return again ? Next::again : Next::done;
}

// Vt[0 … count) = the leading right vectors, orthonormalised in order: a vector of a small sigma is cleaned of what
// rounding left in it of larger ones, whose weight in G it would otherwise inherit.
template <class T>
void SubspaceSearch<T>::take_vectors(std::int64_t count) {
  const std::int64_t ld = padded(G_.cols);
  double* gram = ritz_.N;
  double* factor = ritz_.scratch;
  double* inverse = ritz_.P;
  kernels::combine_rows(ritz_.mix, count, k_, k_, Zt_, G_.cols, ld, spare_);
  kernels::gram_rows(spare_, count, G_.cols, ld, gram);
  kept_ = inverse_cholesky(gram, count, kDrop<T>, factor, inverse).columns;
  kernels::combine_rows(inverse, count, count, count, spare_, G_.cols, ld, Vt_);
}

template <class T>
void SubspaceSearch<T>::grow() {
  take_vectors(ritz_.independent);
  store(kept_);
  book(k_ < kFirstColumns ? kFirstColumns : std::min(even(2 * k_), options_.max_columns / 2 * 2));
  passes_at_width_ = 0;
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
    const std::int64_t wanted = next == Next::done ? std::max(capacity(), above_) : capacity();
    take_vectors(std::min(wanted, ritz_.independent));
    if (next == Next::done) break;
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
bool SubspaceSearch<T>::look_again() {
  fill_fresh_columns();
  deflate_fresh_columns();
  if (!read_matrix()) return false;
  analyse();
  take_vectors(std::min(std::max(capacity(), above_), ritz_.independent));
  limit_to_rank();
  return true;
}

template <class T>
void SubspaceSearch<T>::store(std::int64_t count) {
  state_.cols = G_.cols;
  state_.kept = count;
  state_.V.resize(static_cast<std::size_t>(count * G_.cols));
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = Vt_ + i * padded(G_.cols);
    std::transform(row, row + G_.cols, state_.V.data() + i * G_.cols, [](T x) { return static_cast<float>(x); });
  }
}

// A width that was grown for a few heavy steps is given back by halves, and a little more when hardly anything is clipped.
template <class T>
void SubspaceSearch<T>::adapt_width() {
  const std::int64_t narrower = k_ > kFirstColumns ? std::max(kFirstColumns, even(k_ / 2)) : kCalmColumns;
  const bool would_do = k_ > narrower && above_ < narrower - kFreshColumns;
  state_.calm_steps = would_do ? state_.calm_steps + 1 : 0;
  state_.columns = k_;
  if (state_.calm_steps < kCalmSteps) return;
  state_.calm_steps = 0;
  state_.columns = narrower;
}

template <class T>
void SubspaceSearch<T>::remember() {
  store(std::min(kept_, capacity()));
  if (options_.rank == 0) adapt_width();
}

template class SubspaceSearch<float>;
template class SubspaceSearch<double>;

}  // namespace spectralclip

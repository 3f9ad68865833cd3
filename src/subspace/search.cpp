// SPDX-License-Identifier: Apache-2.0
#include "subspace/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "factor/small_eigen.h"
#include "kernels/fused_pass.h"
#include "kernels/small_products.h"
#include "random/uniform.h"
#include "spectralclip/report.h"
#include "subspace/certificate.h"
#include "subspace/cost.h"

namespace spectralclip {
namespace {

constexpr double kLeftOut = 0.01;        // share of tau that dependent columns may hide before the basis starts over
constexpr int kRefiningPasses = 4;       // reads after which nothing more is read for sigma_max alone
constexpr std::int64_t kCalmSteps = 16;  // steps before a width that is no longer needed is given back

[[nodiscard]] constexpr std::int64_t even(std::int64_t k) noexcept { return (k + 1) / 2 * 2; }

// A column of W counts as a combination of earlier ones when less than this share of its square is new: rounding is
// amplified by the inverse of it (findings()), and what such a column adds is left to the next pass.
template <class T>
constexpr double kDrop = sizeof(T) == 4 ? 1e-5 : 1e-8;
// A vector whose part outside the basis is shorter than this is rounding.
template <class T>
constexpr double kGone = sizeof(T) == 4 ? 1e-5 : 1e-12;
template <class T>
constexpr double kEpsilon = std::numeric_limits<T>::epsilon();

// Sums of squares outside this range lose entries to overflow or underflow of T; such a matrix goes to a dense method.
template <class T>
bool in_range(double norm_squared) {
  return norm_squared > (sizeof(T) == 4 ? 1e-24 : 1e-200) && norm_squared < (sizeof(T) == 4 ? 1e30 : 1e200);
}

// T_degree(x) for x >= 1, at most 1e150.
double chebyshev(int degree, double x) { return std::cosh(std::min(degree * std::acosh(x), 340.0)); }

// The smallest h such that a largest value of h would have shown as more than `shown` after `degree` powers, from
// random columns of squared length `ratio` times that of their part along the leading vector: with u = shown^2 / h^2,
// (1 - u) 4 / u^2 T_degree(2 / u - 1)^2 >= ratio.
double krylov_bound(double shown, int degree, double ratio) {
  double low = 0, high = 1;
  for (int i = 0; i < 50; ++i) {
    const double u = (low + high) / 2;
    const double growth = chebyshev(degree, 2 / u - 1);
    ((1 - u) * 4 / (u * u) * growth * growth >= ratio ? low : high) = u;
  }
  return low > 0 ? shown / std::sqrt(low) : std::numeric_limits<double>::infinity();
}

}  // namespace

template <class T>
SubspaceSearch<T>::SubspaceSearch(std::int64_t rows, std::int64_t cols, const SearchOptions& options,
                                  const RandomStream& stream, SubspaceState& state, Arena& memory)
    : rows_(rows),
      cols_(cols),
      ld_(kernels::padded(cols)),
      smaller_side_(std::min(rows, cols)),
      options_(options),
      stream_(stream),
      state_(state),
      memory_(memory) {
  cold_ = sketched() || state.cols != cols || state.kept == 0;
  const std::int64_t cold =
      sketched() ? options.rank + options.oversampling : std::max(options.rank + 2, kFirstColumns);
  const std::int64_t first = even(cold_ ? cold : state.kept + kFreshColumns);
  // All the columns there can ever be, and those of a start over: a later step finds them booked. What is not used is
  // not touched.
  const std::int64_t most = sketched() ? first : std::max({first, even(options.max_columns), even(options.rank + 2)});
  book(most + kFreshColumns);
  if (!cold_) recall();
  add_random(first - (cold_ ? 0 : state.kept));
  pad();
}

// Memory for a basis of `capacity` columns.
template <class T>
void SubspaceSearch<T>::book(std::int64_t capacity) {
  const std::int64_t block = capacity * ld_, square = capacity * capacity;
  memory_.reserve(Ritz::bytes(capacity) + 3 * Arena::padded_bytes<T>(block) +
                  Arena::padded_bytes<double>(PassResult<T>::sums_of(capacity)) +
                  2 * Arena::padded_bytes<double>(square) + Arena::padded_bytes<double>(capacity));
  ritz_ = Ritz::grant(memory_, capacity);
  Vt_ = memory_.take<T>(block);
  Zt_ = memory_.take<T>(block);
  spare_ = memory_.take<T>(block);
  sums_ = memory_.take<double>(PassResult<T>::sums_of(capacity));
  raw_ = memory_.take<double>(square);
  first_inverse_ = memory_.take<double>(square);
  noise_ = memory_.take<double>(capacity);
}

template <class T>
PassColumns<T> SubspaceSearch<T>::columns() const noexcept {
  return {row(Vt_, known_), next_};
}

template <class T>
PassResult<T> SubspaceSearch<T>::result() const noexcept {
  return {row(Zt_, known_), sums_, next_};
}

// ---- columns of the next pass: raw first, random ones last, then orthonormal

template <class T>
void SubspaceSearch<T>::recall() {
  for (std::int64_t i = 0; i < state_.kept; ++i) {
    T* out = row(Vt_, i);
    std::copy_n(state_.V.data() + i * cols_, cols_, out);
    std::fill(out + cols_, out + ld_, T{0});
  }
  next_ = state_.kept;  // orthonormal as finish() left them
}

// Of the `count` leading Ritz vectors those that the basis does not hold yet, `most` at the most.
template <class T>
void SubspaceSearch<T>::add_ritz_vectors(std::int64_t count, std::int64_t most) {
  std::int64_t added = 0;
  for (std::int64_t i = 0; i < std::min(count, ritz_.independent) && added < most; ++i) {
    if (ritz_.sine[i] <= kGone<T>) continue;
    kernels::combine_rows(ritz_.mix + i * ritz_.k, 1, ritz_.k, ritz_.k, Zt_, cols_, ld_,
                          row(Vt_, known_ + next_ + added));
    ++added;
  }
  (void)join(added);
}

template <class T>
void SubspaceSearch<T>::fill_random(T* rows, std::int64_t count) const {
  RandomStream stream = stream_;
  stream.pass += static_cast<std::uint32_t>(passes_);
  const T scale = 1 / std::sqrt(static_cast<T>(cols_));
  for (std::int64_t i = 0; i < count; ++i) {
    fill_uniform(stream, static_cast<std::uint32_t>(i), row(rows, i), cols_);
    std::transform(row(rows, i), row(rows, i) + cols_, row(rows, i), [&](T x) { return x * scale; });
    std::fill(row(rows, i) + cols_, row(rows, i) + ld_, T{0});
  }
}

// A probe begins: random columns, for what all rows before them do not hold. The first pass, which is the only one of a
// quiet step, takes them as they are drawn where that is nearly orthonormal.
template <class T>
void SubspaceSearch<T>::add_random(std::int64_t count) {
  constexpr std::int64_t kSpacious = 16;  // dimensions a column
  const std::int64_t held = known_ + next_;
  T* rows = row(Vt_, held);
  fill_random(rows, count);
  double* gram = ritz_.scratch;
  double* values = gram + count * count;
  kernels::gram_rows(rows, count, cols_, ld_, gram);
  symmetric_eigen(gram, count, values, nullptr, values + count);
  probe_ = {.held = held, .block = held, .count = count, .random = count, .degree = 0, .size_squared = values[0]};
  if (known_ == 0 && restarts_ == 0 && cols_ >= kSpacious * (held + count)) {
    unequal_ = held + count;
    next_ += count;
    std::fill_n(raw_, count * count, 0.0);
    for (std::int64_t i = 0; i < count; ++i) raw_[i * count + i] = 1;
    return;
  }
  T* drawn = row(Zt_, held);  // where the pass will put its result
  std::copy_n(rows, count * ld_, drawn);
  probe_.count = join(count);
  kernels::cross_gram_rows(drawn, count, rows, std::max<std::int64_t>(probe_.count, 1), cols_, ld_, raw_);
}

// The probe goes on: one more power of H^T H on its random columns, H^T H X = Z_X - Z_p S_pp^-1 S_pX for the block X of
// the latest pass and the rows p that the probe holds.
template <class T>
void SubspaceSearch<T>::add_krylov() {
  const std::int64_t k = ritz_.k, held = probe_.held, count = probe_.count;
  double* mix = ritz_.scratch;
  double* half = mix + ritz_.capacity * ritz_.capacity;  // L^-1 S_pX
  std::fill(mix, mix + count * k, 0.0);
  for (std::int64_t x = 0; x < count; ++x) {
    double* out = mix + x * k;
    out[probe_.block + x] = 1;
    for (std::int64_t a = 0; a < held; ++a) {
      half[a] = 0;
      for (std::int64_t b = 0; b <= a; ++b) {
        half[a] += ritz_.inverse[a * k + b] * ritz_.S[b * ritz_.capacity + probe_.block + x];
      }
    }
    for (std::int64_t a = 0; a < held; ++a) {
      for (std::int64_t b = a; b < held; ++b) out[a] -= ritz_.inverse[b * k + a] * half[b];
    }
  }
  kernels::combine_rows(mix, count, k, k, Zt_, cols_, ld_, row(Vt_, known_ + next_));
  probe_.block = known_ + next_;
  probe_.count = join(count);
  probe_.lost_squared += lost_squared_;
  // Theorem 4: how far from invariant the space of the powers is.
  const double rounding = 4 * kEpsilon<T> * ritz_.sigma[0] * ritz_.sigma[0];
  const double outside = std::sqrt(probe_.lost_squared + new_squared_) + rounding;
  probed_ = std::min(probed_,
                     std::sqrt(ritz_.tail * ritz_.tail + outside * std::sqrt(probe_.size_squared / radius_squared())));
  bound_unseen();
  ++probe_.degree;
}

// `count` raw rows behind those chosen so far become orthonormal to all before them; returns how many are left.
template <class T>
std::int64_t SubspaceSearch<T>::join(std::int64_t count) {
  const std::int64_t left = orthonormalize(known_ + next_, count);
  next_ += left;
  return left;
}

// Passes take an even number of columns: a row of zeros makes it one.
template <class T>
void SubspaceSearch<T>::pad() {
  if (next_ % 2 == 0) return;
  std::fill_n(row(Vt_, known_ + next_), ld_, T{0});
  ++next_;
}

// x becomes N^-1 x for the Gram matrix N of the rows of Vt.
template <class T>
void SubspaceSearch<T>::solve_first(double* x) const noexcept {
  const double* L = first_inverse_;
  const std::int64_t k = unequal_;
  for (std::int64_t i = k; i-- > 0;) {  // L^-1 x from the last
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) sum += L[i * k + j] * x[j];
    x[i] = sum;
  }
  for (std::int64_t j = 0; j < k; ++j) {  // L^-T of it from the first
    double sum = 0;
    for (std::int64_t i = j; i < k; ++i) sum += L[i * k + j] * x[i];
    x[j] = sum;
  }
}

// Rows [first, first + wanted) of V become orthonormal to all before them and to each other, twice for rounding's sake;
// those with nothing new go. Returns how many are left.
template <class T>
std::int64_t SubspaceSearch<T>::orthonormalize(std::int64_t first, std::int64_t wanted) {
  double* mix = ritz_.scratch;
  const std::int64_t square = ritz_.capacity * ritz_.capacity;
  double* gram = mix + square;
  double* factor = gram + square;
  double* inverse = factor + square;
  T* rows = row(Vt_, first);
  for (int round = 0; round < 2 && wanted > 0; ++round) {
    const std::int64_t all = first + wanted;
    kernels::gram_rows(rows, wanted, cols_, ld_, factor);
    double* before = inverse;
    for (std::int64_t i = 0; i < wanted; ++i) before[i] = factor[i * wanted + i];
    std::fill(mix, mix + wanted * all, 0.0);
    if (first > 0) kernels::cross_gram_rows(rows, wanted, Vt_, first, cols_, ld_, gram);
    for (std::int64_t i = 0; i < wanted; ++i) {
      solve_first(gram + i * first);
      for (std::int64_t j = 0; j < first; ++j) mix[i * all + j] = -gram[i * first + j];
      mix[i * all + first + i] = 1;
    }
    kernels::combine_rows(mix, wanted, all, all, Vt_, cols_, ld_, spare_);
    kernels::gram_rows(spare_, wanted, cols_, ld_, gram);
    if (round == 0) new_squared_ = lost_squared_ = 0;
    for (std::int64_t i = 0; i < wanted; ++i) {
      if (round == 0) new_squared_ += gram[i * wanted + i];
      if (gram[i * wanted + i] > kGone<T> * kGone<T> * before[i]) continue;
      lost_squared_ += round == 0 ? gram[i * wanted + i] : new_squared_;
      for (std::int64_t j = 0; j < wanted; ++j) gram[i * wanted + j] = gram[j * wanted + i] = 0;
    }
    const double left_out = inverse_cholesky(gram, wanted, kGone<T>, factor, inverse).left_out;
    lost_squared_ += round == 0 || left_out == 0 ? left_out : new_squared_;
    kernels::combine_rows(inverse, wanted, wanted, wanted, spare_, cols_, ld_, rows);
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < wanted; ++i) {
      if (inverse[i * wanted + i] == 0) continue;
      if (left < i) std::copy_n(row(rows, i), ld_, row(rows, left));
      ++left;
    }
    wanted = left;
  }
  return wanted;
}

// ---- what a pass brought

template <class T>
bool SubspaceSearch<T>::take() {
  ++passes_;
  cost_ += pass_cost(rows_, cols_, next_) + ritz_cost(cols_, known_ + next_);
  norm_squared_ = sums_[0];
  if (!in_range<T>(norm_squared_)) {
    outcome_ = SearchOutcome::out_of_range;
    return false;
  }
  extend();
  solve_ritz(ritz_, kDrop<T>, kEpsilon<T>, probe_.random > 0 ? probe_.held : 0);
  double captured = 0, rounding = 16 * kEpsilon<T> * norm_squared_;
  for (std::int64_t i = 0; i < ritz_.k; ++i) {
    noise_[i] = noise_of(ritz_.sigma[i], ritz_.gain[i]);
    captured += ritz_.sigma[i] * ritz_.sigma[i];
    rounding += noise_[i];
  }
  energy_left_ = complete() ? 0.0 : std::sqrt(std::max(norm_squared_ - captured, 0.0) + rounding);
  if (probe_.random > 0) read_probe();
  bound_unseen();
  unseen_.typical = std::min(unseen_.typical, next_sigma());
  solve_sines(ritz_);
  if (complete()) std::fill(ritz_.sine, ritz_.sine + ritz_.k, 0.0);
  sigma_correction_ = sigma_correction();
  judgement_ = judge(findings(), options_);
  return sketched() ? next_power_pass() : plan_next();
}

// Columns left out as dependent are neither held nor probed: what they had that was new comes on top.
template <class T>
void SubspaceSearch<T>::bound_unseen() noexcept {
  unseen_.bound = std::min(std::sqrt(probed_ * probed_ + ritz_.left_out), energy_left_);
}

template <class T>
void SubspaceSearch<T>::extend() {
  const std::int64_t p = next_, k = known_ + p, ld = ritz_.capacity;
  double* block = ritz_.scratch;
  const auto products = [&](const T* A, std::int64_t ka, const T* B, std::int64_t kb, double* out) {
    kernels::cross_gram_rows(A, ka, B, kb, cols_, ld_, block);
    for (std::int64_t i = 0; i < ka; ++i) std::copy_n(block + i * kb, kb, out + i * ld);
  };
  const auto mirror = [&](double* M) {  // the new columns of the earlier rows, into the new rows
    for (std::int64_t i = 0; i < known_; ++i) {
      for (std::int64_t j = known_; j < k; ++j) M[j * ld + i] = M[i * ld + j];
    }
  };
  const auto symmetric = [&](T* A, double* M) {
    if (known_ > 0) products(A, known_, row(A, known_), p, M + known_);
    kernels::gram_rows(row(A, known_), p, cols_, ld_, block);
    for (std::int64_t i = 0; i < p; ++i) std::copy_n(block + i * p, p, M + (known_ + i) * ld + known_);
    mirror(M);
  };
  symmetric(Zt_, ritz_.T);
  symmetric(Vt_, ritz_.N);
  if (known_ == 0 && unequal_ > 0) {
    for (std::int64_t i = 0; i < unequal_; ++i) std::copy_n(ritz_.N + i * ld, unequal_, block + i * unequal_);
    (void)inverse_cholesky(block, unequal_, kDrop<T>, block + unequal_ * unequal_, first_inverse_);
  }
  products(Vt_, k, row(Zt_, known_), p, ritz_.P + known_);
  if (known_ > 0) products(row(Vt_, known_), p, Zt_, known_, ritz_.P + known_ * ld);
  for (std::int64_t i = 0; i < known_; ++i) std::copy_n(ritz_.P + i * ld + known_, p, ritz_.S + i * ld + known_);
  for (std::int64_t i = 0; i < p; ++i) std::copy_n(result().S() + i * p, p, ritz_.S + (known_ + i) * ld + known_);
  mirror(ritz_.S);
  known_ = ritz_.k = k;
  next_ = 0;
}

// r^2 of the theorems, for columns drawn about one long.
template <class T>
double SubspaceSearch<T>::radius_squared() const {
  return small_ball_radius_squared(probe_.random, kEstimateFailure) / static_cast<double>(cols_);
}

// Two bounds from the same random columns (numerics.md, Theorems 2 and 3): of their first pass, the fourth root of the
// probe; of the powers that followed, the largest value that the rows since then show. Both fail only when the columns
// are nearly orthogonal to the leading right vector of H. (solve_sines comes later: the probe uses its memory.)
template <class T>
void SubspaceSearch<T>::read_probe() {
  const double radius_squared = this->radius_squared();
  if (probe_.degree == 0 && !probe_.read) {
    probe_.read = true;
    Ritz without = ritz_;  // the row of zeros, if there is one, holds nothing
    without.k = probe_.held + probe_.count;
    const double rounding = 16 * kEpsilon<T> * norm_squared_ * ritz_.sigma[0] * ritz_.sigma[0];
    const double largest = probe_.count > 0 ? probe_largest(without, probe_.held, raw_, probe_.random, kDrop<T>) : 0.0;
    const double fourth = std::sqrt(std::sqrt(largest + rounding * kEpsilon<T>));
    probed_ = std::min(probed_, fourth / std::sqrt(std::sqrt(radius_squared)));
    const double typical_squared = static_cast<double>(probe_.random) / static_cast<double>(cols_);
    unseen_.typical = fourth / std::sqrt(std::sqrt(typical_squared));
  }
  const double rounding = noise_of(ritz_.tail, 1 / std::sqrt(ritz_.weakest));
  const double shown = std::sqrt(ritz_.tail * ritz_.tail + ritz_.left_out + rounding);
  probed_ = std::min(probed_, krylov_bound(shown, probe_.degree, probe_.size_squared / radius_squared));
}

// Largest singular value that the basis may not hold, as a scale: the last one found, or the root mean square of the
// rest.
template <class T>
double SubspaceSearch<T>::next_sigma() const noexcept {
  if (complete()) return 0;
  const double rest = energy_left_ / std::sqrt(static_cast<double>(smaller_side_ - ritz_.independent));
  return std::max(ritz_.independent > 0 ? ritz_.sigma[ritz_.independent - 1] : 0.0, rest);
}

// The relative amount by which a pass sees sigma_max short. Its vector turned by an angle in the pass; the left vector
// that the pass saw is off by rho times the tangent of it, rho = next / sigma_max, and the squared value lacks the
// square of that. The angle shows in the vector's sine and, free of the vectors below sigma_max that mixed in, in what
// was gained.
template <class T>
double SubspaceSearch<T>::sigma_correction() const {
  if (sketched() || complete() || ritz_.sigma[0] <= 0) return 0;
  const Turn& turn = ritz_.turn;
  const double rho = std::min(unseen_.typical / ritz_.sigma[0], 1.0);
  constexpr double kLeastGap = 1.0 / 16;  // of 1 - rho^2: with nearly equal values the gain is rounding
  constexpr double kLeastCosine = 1e-3;   // squared
  const double turned = std::min(turn.sine_squared, turn.gain / std::max(1 - rho * rho, kLeastGap));
  const double lacking = rho * rho * turned / std::max(1 - turn.sine_squared, kLeastCosine);
  return 0.5 * lacking / (1 + lacking);
}

// Columns of W and of Z are known to eps of their own lengths, |z| <= sigma_1 |w|. In a left vector u = sum c_j w_j
// that grows by its gain, the root of sum c_j^2 |w_j|^2: u is as long as one but for eps gain^2 (a relative error of
// sigma^2), and B^T x = G^T u is off by eps sigma_1 gain; B B^T is made in double from products of the size of
// sigma_1^2 (numerics.md, section 4).
template <class T>
double SubspaceSearch<T>::noise_of(double sigma, double gain) const noexcept {
  const double shifted = 4 * kEpsilon<T> * ritz_.sigma[0] * gain;
  const double stretched = 4 * kEpsilon<T> * sigma * sigma + 8 * kEpsilon<double> * ritz_.sigma[0] * ritz_.sigma[0];
  return (2 * sigma + shifted) * shifted + stretched * gain * gain;
}

template <class T>
Findings SubspaceSearch<T>::findings() const {
  constexpr double kKnown = 5e-4;   // relative noise of a square: the value is known to a quarter of 1e-3
  constexpr double kAligned = 0.1;  // pivots of columns that are nearly orthogonal after the product with G
  double floor = 0;
  for (std::int64_t i = 0; i < ritz_.independent; ++i) {
    const double square = ritz_.sigma[i] * ritz_.sigma[i];
    if (noise_[i] > kKnown * square) floor = std::max(floor, std::sqrt(square + noise_[i]));
  }
  return {
      .count = ritz_.independent,
      .sigma = ritz_.sigma,
      .sine = ritz_.sine,
      .noise = noise_,
      .floor = floor,
      .can_improve = ritz_.weakest<kAligned, .complete = complete(), .unseen = unseen_, .probing = probe_.count> 0 &&
                     ritz_.tail <= options_.level,
      .sigma_correction = sigma_correction_};
}

template <class T>
double SubspaceSearch<T>::sigma_max() const noexcept {
  constexpr double kSmallAngle = 0.5;  // sine squared up to which the correction means something
  return ritz_.sigma[0] * (ritz_.turn.sine_squared <= kSmallAngle ? 1 + sigma_correction_ : 1.0);
}

// ---- what to read next

template <class T>
bool SubspaceSearch<T>::plan_next() {
  const bool probing = probe_goes_on();
  const bool unaligned = cold_ || std::sqrt(ritz_.left_out) > kLeftOut * options_.tau;
  const bool drowned = judgement_.rounded || (judgement_.wide_range && judgement_.can_improve);
  const bool content = judgement_.settled() && !judgement_.wide_range;
  const bool start_over = (drowned && restarts_ < 2) || (unaligned && passes_ == 1 && !content);
  const bool refine = judgement_.refine && passes_ < kRefiningPasses;
  outcome_ = judgement_.settled() ? SearchOutcome::settled : SearchOutcome::not_converged;
  if (judgement_.settled() && !start_over && !refine) return false;
  const double next = pass_cost(rows_, cols_, kTypicalColumns) + ritz_cost(cols_, known_ + kTypicalColumns);
  if (passes_ >= options_.max_passes || cost_ + next > options_.max_cost) return false;
  if (start_over) return replace_columns(!complete());
  const std::int64_t room = options_.max_columns - known_;
  if (room < kFreshColumns) {
    if (!judgement_.settled() && 2 * judgement_.above >= known_) outcome_ = SearchOutcome::exhausted;
    return false;
  }
  const std::int64_t sharpen = std::max<std::int64_t>(judgement_.sharpen, refine ? 2 : 0);
  add_ritz_vectors(sharpen, std::min(sharpen, room - (judgement_.hidden ? kFreshColumns : 0)));
  if (judgement_.hidden && !probing) add_random(kFreshColumns);
  pad();
  const auto unknown = [&](double sine) { return sine > kGone<T>; };
  const bool known = std::none_of(ritz_.sine, ritz_.sine + std::min(judgement_.sharpen, ritz_.independent), unknown);
  if (next_ == 0 && known && !judgement_.hidden) outcome_ = SearchOutcome::settled;  // to rounding
  return next_ > 0;
}

// A probe goes on as long as it showed nothing new above tau (what it found is held by the next one) and has powers
// left to show: they join the columns to read, unless the little they bring proves enough (Theorem 4).
template <class T>
bool SubspaceSearch<T>::probe_goes_on() {
  const bool room = known_ + probe_.count <= ritz_.capacity;
  if (!judgement_.hidden || ritz_.tail > options_.level || probe_.count == 0 || !room) return false;
  add_krylov();
  judgement_ = judge(findings(), options_);
  if (!judgement_.hidden) next_ = 0;
  return probe_.count > 0;
}

// Algorithm 2: the vectors found replace the columns, as often as asked for.
template <class T>
bool SubspaceSearch<T>::next_power_pass() {
  outcome_ = judgement_.settled() ? SearchOutcome::settled : SearchOutcome::not_converged;
  if ((complete() && !judgement_.can_improve) || passes_ > options_.power_passes) return false;
  return replace_columns(passes_ == options_.power_passes);
}

// The basis starts over from the vectors found. Unlike random columns they are nearly orthogonal after the product with
// G, so that small values do not drown in large ones. Columns that were left out as dependent get another chance: what
// their products hold beside those vectors.
template <class T>
bool SubspaceSearch<T>::replace_columns(bool probe) {
  ++restarts_;
  const std::int64_t k = ritz_.k, most = ritz_.capacity - kFreshColumns;
  const std::int64_t count = std::min(ritz_.independent, most);
  kernels::combine_rows(ritz_.mix, count, k, k, Zt_, cols_, ld_, Vt_);
  std::int64_t filled = count;
  for (std::int64_t i = 0; i < k && filled < most; ++i) {
    if (ritz_.inverse[i * k + i] == 0) std::copy_n(row(Zt_, i), ld_, row(Vt_, filled++));
  }
  known_ = ritz_.k = next_ = unequal_ = 0;
  unseen_ = Unseen{};
  probed_ = std::numeric_limits<double>::infinity();
  probe_ = Probe{};
  (void)join(filled);
  if (probe) add_random(kFreshColumns);
  pad();
  return next_ > 0;
}

// ---- the end of a step

// Orthonormalised in order: a vector of a small sigma is cleaned of what rounding left in it of larger ones, whose
// weight in G it would otherwise inherit.
template <class T>
void SubspaceSearch<T>::finish() {
  const std::int64_t wanted = std::max({judgement_.above, state_.columns, kLeastKept});
  const std::int64_t count = std::min(wanted, ritz_.independent);
  const std::int64_t square = ritz_.capacity * ritz_.capacity;
  double* gram = ritz_.scratch;
  double* inverse = gram + square;
  kernels::combine_rows(ritz_.mix, count, ritz_.k, ritz_.k, Zt_, cols_, ld_, spare_);
  kernels::gram_rows(spare_, count, cols_, ld_, gram);
  kept_ = inverse_cholesky(gram, count, kGone<T>, gram + 2 * square, inverse).columns;
  kernels::combine_rows(inverse, count, count, count, spare_, cols_, ld_, Vt_);
}

// Room for what was above tau and two more; what was grown for a few heavy steps is given back later.
template <class T>
void SubspaceSearch<T>::adapt_width() {
  const std::int64_t wanted = options_.rank > 0 ? options_.rank : judgement_.above;
  const std::int64_t needed = std::clamp(even(wanted + 2), kLeastKept, std::max(kLeastKept, options_.max_kept));
  state_.calm_steps = needed < state_.columns ? state_.calm_steps + 1 : 0;
  if (needed < state_.columns && state_.calm_steps < kCalmSteps) return;
  state_.columns = needed;
  state_.calm_steps = 0;
}

template <class T>
void SubspaceSearch<T>::remember() {
  adapt_width();
  state_.cols = cols_;
  state_.kept = std::min(kept_, state_.columns);
  state_.V.reserve(static_cast<std::size_t>(state_.columns * cols_));
  state_.V.resize(static_cast<std::size_t>(state_.kept * cols_));
  for (std::int64_t i = 0; i < state_.kept; ++i) {
    std::transform(row(Vt_, i), row(Vt_, i) + cols_, state_.V.data() + i * cols_,
                   [](T x) { return static_cast<float>(x); });
  }
}

template class SubspaceSearch<float>;
template class SubspaceSearch<double>;

}  // namespace spectralclip

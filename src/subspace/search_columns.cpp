// SPDX-License-Identifier: Apache-2.0
// The columns that go into a pass and the vectors that come out of it: memory, fresh columns, growing, narrowing, and
// what is left for the next step.
#include <algorithm>
#include <cmath>

#include "factor/small_eigen.h"
#include "kernels/small_products.h"
#include "random/uniform.h"
#include "subspace/search.h"
#include "subspace/search_limits.h"

namespace spectralclip {
namespace {

using kernels::padded;

constexpr std::int64_t kCalmSteps = 16;  // steps before a width that is no longer needed is halved

// The power of two at the size of Z, sigma_max^2. Below single precision's comfort Z is scaled by it, and mix, whose
// entries are as large as Z is small, against it.
double size_of_products(double norm_squared) { return std::ldexp(1.0, std::ilogb(norm_squared)); }
constexpr double kSmallProducts = 1e-6;

}  // namespace

// Memory for width k; the vectors in the state become the kept columns.
template <class T>
void SubspaceSearch<T>::book(std::int64_t k) {
  k_ = booked_ = k;
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

// Vt[0 … count) = the leading right vectors, orthonormalised in order: a vector of a small sigma is cleaned of what
// rounding left in it of larger ones, whose weight in G it would otherwise inherit.
template <class T>
void SubspaceSearch<T>::take_vectors(std::int64_t count) {
  const std::int64_t ld = padded(G_.cols);
  double* gram = ritz_.N;
  double* factor = ritz_.scratch;
  double* inverse = ritz_.P;
  if (norm_squared_ < kSmallProducts) rescale_products();
  kernels::combine_rows(ritz_.mix, count, k_, k_, Zt_, G_.cols, ld, spare_);
  kernels::gram_rows(spare_, count, G_.cols, ld, gram);
  kept_ = inverse_cholesky(gram, count, kDrop<T>, factor, inverse).columns;
  kernels::combine_rows(inverse, count, count, count, spare_, G_.cols, ld, Vt_);
}

template <class T>
void SubspaceSearch<T>::rescale_products() {
  const double size = size_of_products(norm_squared_);
  const T up = static_cast<T>(1 / size);
  std::transform(Zt_, Zt_ + k_ * padded(G_.cols), Zt_, [&](T z) { return z * up; });
  std::transform(ritz_.mix, ritz_.mix + k_ * k_, ritz_.mix, [&](double m) { return m * size; });
}

template <class T>
void SubspaceSearch<T>::grow() {
  take_vectors(ritz_.independent);
  store(kept_);
  book(booked_ < kFirstColumns ? kFirstColumns : std::min(even(2 * booked_), options_.max_columns / 2 * 2));
  narrow_ = false;
  passes_at_width_ = 0;
}

// The next passes carry the first `count` vectors alone, 4 m n count flops instead of 4 m n k. The others wait in the
// state; what lies beyond them is described by next_sigma() and by the probe as they are now.
template <class T>
void SubspaceSearch<T>::narrow(std::int64_t count) {
  store(kept_);
  beyond_ = next_sigma();
  narrow_ = true;
  k_ = even(count);
  left_out_ = k_ < ritz_.k ? ritz_.sigma[k_] : 0.0;
  ritz_.k = k_;
  buffers_.narrow(k_, padded(G_.cols));
  kept_ = std::min(kept_, k_);
}

template <class T>
void SubspaceSearch<T>::store(std::int64_t count) {
  state_.cols = G_.cols;
  state_.kept = count;
  state_.V.resize(static_cast<std::size_t>(count * G_.cols));
  copy_to_state(count);
}

template <class T>
void SubspaceSearch<T>::copy_to_state(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = Vt_ + i * padded(G_.cols);
    std::transform(row, row + G_.cols, state_.V.data() + i * G_.cols, [](T x) { return static_cast<float>(x); });
  }
}

// A width that was grown for a few heavy steps is given back by halves, and a little more when hardly anything is
// clipped.
template <class T>
void SubspaceSearch<T>::adapt_width() {
  const std::int64_t narrower = booked_ > kFirstColumns ? std::max(kFirstColumns, even(booked_ / 2)) : kCalmColumns;
  const bool would_do = booked_ > narrower && above_ < narrower - kFreshColumns;
  state_.calm_steps = would_do ? state_.calm_steps + 1 : 0;
  state_.columns = booked_;
  if (state_.calm_steps < kCalmSteps) return;
  state_.calm_steps = 0;
  state_.columns = narrower;
}

template <class T>
void SubspaceSearch<T>::remember() {
  if (narrow_) {
    copy_to_state(std::min(kept_, state_.kept));  // sharper ones in their places, the others as they were
  } else {
    store(std::min(kept_, capacity()));
  }
  if (options_.rank == 0) adapt_width();
}

template class SubspaceSearch<float>;
template class SubspaceSearch<double>;

}  // namespace spectralclip

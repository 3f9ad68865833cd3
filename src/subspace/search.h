// SPDX-License-Identifier: Apache-2.0
// The search for the leading singular triplets of one matrix: passes over G until what exceeds `level` is known well
// enough. Cold (sketched) or warm (tracked, starting from last step's vectors with fresh random columns beside them).
// It decides how much to read; what to do with the triplets is clip/'s business.
#pragma once

#include <cmath>
#include <cstdint>

#include "random/stream.h"
#include "spectralclip/executor.h"
#include "spectralclip/matrix.h"
#include "subspace/pass.h"
#include "subspace/ritz.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

// Fresh random columns of every tracked pass: enough that a new spike is missed with probability below 1e-4 (numerics).
inline constexpr std::int64_t kFreshColumns = 4;
// Width of a free rank at first: four vectors kept, four fresh.
inline constexpr std::int64_t kFirstColumns = 8;
// Width of a free rank in calm times: two kept, four fresh. A quarter less arithmetic in every pass that only watches.
inline constexpr std::int64_t kCalmColumns = 6;

struct SearchOptions {
  double tau = 0;         // threshold …
  double level = 0;       // … and what counts as above it: tau plus a rounding margin
  std::int64_t rank = 0;  // 0: free
  std::int64_t oversampling = 0;
  std::int64_t max_columns = 64;
  double tolerance = 1e-4;
  int max_passes = 4;
  int power_passes = -1;  // >= 0: sketched, exactly 1 + power_passes passes from a cold start
};

enum class SearchOutcome : std::uint8_t {
  settled,      // everything found above level is accurate to the tolerance, or passes ran out trying
  unsettled,    // passes ran out while a value below level was still growing past it
  exhausted,    // more values above level than the rank or max_columns allow
  out_of_range  // squares overflow, vanish, or an entry is not finite: nothing was changed
};

template <class T>
class SubspaceSearch {
 public:
  SubspaceSearch(const AnyMatrix& G, const SearchOptions& options, const RandomStream& stream, SubspaceState& state,
                 Workspace& workspace, Executor& executor);

  SearchOutcome run();
  void remember();  // leaves the vectors in the state for the next step, and its width
  // After an update: one more pass, over the first `count` directions if nothing else can have been missed. Values that
  // rounding of the update left above level show up in above(). False: what is left is too small to be squared.
  [[nodiscard]] bool look_again(std::int64_t count);

  [[nodiscard]] int passes() const noexcept { return passes_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return booked_; }
  [[nodiscard]] std::int64_t found() const noexcept {
    return k_;
  }  // entries of sigma(); fewer than columns() when narrow
  [[nodiscard]] std::int64_t above() const noexcept { return above_; }  // triplets to lower, at most the rank
  [[nodiscard]] const double* sigma() const noexcept { return ritz_.sigma; }
  [[nodiscard]] double sigma_max() const noexcept {
    return sigma_max_;
  }                                                                // sigma()[0], corrected for the angle it turned
  [[nodiscard]] const T* vectors() const noexcept { return Vt_; }  // rows, padded(cols) apart
  [[nodiscard]] double norm_squared() const noexcept { return norm_squared_; }
  [[nodiscard]] double error_estimate() const noexcept { return error_estimate_; }
  [[nodiscard]] bool complete() const noexcept;  // the subspace spans everything: nothing is unseen
  [[nodiscard]] double captured_energy() const noexcept;
  [[nodiscard]] double amplification() const noexcept { return 1 / std::sqrt(ritz_.weakest); }  // of rounding in B
  [[nodiscard]] double probe_largest() const noexcept { return probed_ > 0 ? ritz_.probe[0] : 0.0; }
  [[nodiscard]] std::int64_t fresh() const noexcept { return probed_; }  // columns behind the probe; 0: no probe
  [[nodiscard]] double left_out() const noexcept { return left_out_; }   // largest value found but not in sigma()
  [[nodiscard]] const PassBuffers<T>& buffers() const noexcept { return buffers_; }

 private:
  enum class Next : std::uint8_t { done, again, sharpen, grow };

  [[nodiscard]] bool sketched() const noexcept { return options_.power_passes >= 0; }
  [[nodiscard]] std::int64_t capacity() const noexcept;  // vectors carried from pass to pass
  [[nodiscard]] bool rank_is_full() const noexcept { return options_.rank > 0 && above_ >= options_.rank; }
  [[nodiscard]] std::int64_t smaller_side() const noexcept;
  void book(std::int64_t k);
  void fill_fresh_columns();
  void deflate_fresh_columns();
  bool read_matrix();  // false: out of range
  void analyse();
  [[nodiscard]] Next decide();
  [[nodiscard]] bool probe_fires() const noexcept;
  [[nodiscard]] bool may_narrow() const noexcept;
  [[nodiscard]] std::int64_t worth_sharpening() const noexcept;
  [[nodiscard]] double sigma_correction();
  [[nodiscard]] bool below_may_rise();
  void estimate_error();
  void compute_sines(std::int64_t count);
  [[nodiscard]] double next_sigma() const noexcept;
  [[nodiscard]] bool swamped() const noexcept;
  void limit_to_rank() noexcept;
  void take_vectors(std::int64_t count);
  void rescale_products();
  void grow();
  void narrow(std::int64_t count);
  void store(std::int64_t count);
  void copy_to_state(std::int64_t count);
  void adapt_width();

  AnyMatrix G_;
  SearchOptions options_;
  RandomStream stream_;
  SubspaceState& state_;
  Workspace& workspace_;
  Executor& executor_;

  PassBuffers<T> buffers_;
  Ritz ritz_;
  T* Vt_ = nullptr;          // k x padded(cols): columns of this pass, then the vectors found
  T* Zt_ = nullptr;          // k x padded(cols)
  T* spare_ = nullptr;       // k x padded(cols)
  std::int64_t booked_ = 0;  // columns there is memory for
  std::int64_t k_ = 0;       // columns of this pass, fewer when narrow
  std::int64_t kept_ = 0;    // leading rows of Vt that come from an earlier pass or step
  std::int64_t fresh_ = 0;
  std::int64_t probed_ = 0;  // fresh columns of the last wide pass
  std::int64_t above_ = 0;
  int passes_ = 0;
  int passes_at_width_ = 0;  // since the last growth
  bool cold_ = false;
  bool probed_again_ = false;
  bool narrow_ = false;
  bool turn_known_ = false;
  SearchOutcome outcome_ = SearchOutcome::settled;
  double norm_squared_ = 0;
  double error_estimate_ = 0;
  double sigma_max_ = 0;
  double beyond_ = 0;    // next_sigma() of the last wide pass
  double left_out_ = 0;  // largest value that it found and the narrow ones do without
  Turn turn_;
};

}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The search for the singular triplets of one matrix that exceed `level`, driven from outside: columns() says what to
// multiply, the driver runs the pass (over all rows, or over its own and sums the results over ranks), take() says
// whether another pass is wanted. Every pass widens the basis; nothing that was read is thrown away (block Krylov).
// It decides how much to read; what to do with the triplets is clip/'s business.
#pragma once

#include <cstdint>
#include <limits>

#include "random/stream.h"
#include "subspace/decide.h"
#include "subspace/pass.h"
#include "subspace/ritz.h"
#include "subspace/state.h"
#include "subspace/workspace.h"

namespace spectralclip {

inline constexpr std::int64_t kFirstColumns = 8;  // random columns of a cold start
inline constexpr std::int64_t kLeastKept = 4;     // vectors that are carried from step to step at least
inline constexpr std::int64_t kFreshColumns = 4;  // random columns of a pass that looks for what the others do not hold

template <class T>
class SubspaceSearch {
 public:
  // rows, cols: of the whole matrix, whoever holds its rows.
  SubspaceSearch(std::int64_t rows, std::int64_t cols, const SearchOptions& options, const RandomStream& stream,
                 SubspaceState& state, Arena& memory);

  [[nodiscard]] PassColumns<T> columns() const noexcept;
  [[nodiscard]] PassResult<T> result() const noexcept;  // where the next pass puts its sums
  bool take();                                          // true: another pass over columns() is wanted
  // The vectors found, orthonormal, largest first: what an update needs, and what the state keeps.
  void finish();
  void remember();  // leaves the vectors in the state for the next step, and its width

  [[nodiscard]] bool settled() const noexcept { return outcome_ == SearchOutcome::settled; }
  [[nodiscard]] SearchOutcome outcome() const noexcept { return outcome_; }
  [[nodiscard]] int passes() const noexcept { return passes_; }
  [[nodiscard]] double cost() const noexcept { return cost_; }                    // microseconds by cost.h
  [[nodiscard]] std::int64_t found() const noexcept { return ritz_.k; }           // entries of sigma() and sine()
  [[nodiscard]] std::int64_t above() const noexcept { return judgement_.above; }  // triplets to lower
  [[nodiscard]] const Judgement& judgement() const noexcept { return judgement_; }
  [[nodiscard]] const double* sigma() const noexcept { return ritz_.sigma; }
  [[nodiscard]] const double* sine() const noexcept { return ritz_.sine; }
  [[nodiscard]] double sigma_max() const noexcept;  // sigma()[0], corrected for the angle that its vector turned
  [[nodiscard]] const T* vectors() const noexcept { return Vt_; }  // after finish(): rows, padded(cols) apart
  [[nodiscard]] double norm_squared() const noexcept { return norm_squared_; }
  [[nodiscard]] bool complete() const noexcept { return ritz_.independent >= smaller_side_; }
  [[nodiscard]] const Unseen& unseen() const noexcept { return unseen_; }
  [[nodiscard]] double energy_left() const noexcept { return energy_left_; }  // ||H||_F, certain
  [[nodiscard]] const double* noise() const noexcept {
    return noise_;
  }                                                           // what rounding may move the squares of sigma() by
  [[nodiscard]] T* spare() const noexcept { return spare_; }  // found() numbers of room, after finish()

 private:
  // Random columns that look for what the `held` rows before them do not hold, and the powers of H^T H on them.
  struct Probe {
    std::int64_t held = 0;
    std::int64_t block = 0;  // where the latest power lies in the basis …
    std::int64_t count = 0;  // … and its rows
    std::int64_t random = 0;
    int degree = 0;
    double size_squared = 0;  // ||Omega||_2^2
    double lost_squared = 0;  // of powers: what of them was too little to join the basis
    bool read = false;
  };

  void book(std::int64_t capacity);
  void recall();
  void fill_random(T* rows, std::int64_t count) const;
  void add_random(std::int64_t count);
  void add_ritz_vectors(std::int64_t count, std::int64_t most);
  void add_krylov();
  [[nodiscard]] std::int64_t join(std::int64_t count);
  void bound_unseen() noexcept;
  void pad();
  void solve_first(double* x) const noexcept;
  [[nodiscard]] std::int64_t orthonormalize(std::int64_t first, std::int64_t wanted);
  void extend();
  void read_probe();
  [[nodiscard]] double radius_squared() const;
  [[nodiscard]] double noise_of(double sigma, double gain) const noexcept;
  [[nodiscard]] double next_sigma() const noexcept;
  [[nodiscard]] double sigma_correction() const;
  [[nodiscard]] Findings findings() const;
  [[nodiscard]] bool plan_next();
  [[nodiscard]] bool probe_goes_on();
  [[nodiscard]] bool next_power_pass();
  [[nodiscard]] bool replace_columns(bool probe);
  [[nodiscard]] T* row(T* rows, std::int64_t i) const noexcept { return rows + i * ld_; }
  [[nodiscard]] bool sketched() const noexcept { return options_.power_passes >= 0; }
  void adapt_width();

  std::int64_t rows_, cols_, ld_, smaller_side_;
  SearchOptions options_;
  RandomStream stream_;
  SubspaceState& state_;
  Arena& memory_;

  Ritz ritz_;
  T* Vt_ = nullptr;                  // capacity x ld: the basis, then the vectors found
  T* Zt_ = nullptr;                  // capacity x ld
  T* spare_ = nullptr;               // capacity x ld
  double* sums_ = nullptr;           // of the pass under way
  double* noise_ = nullptr;          // of each Ritz value
  double* raw_ = nullptr;            // the random columns of this pass in the basis they were made into
  double* first_inverse_ = nullptr;  // L^-1, L L^T the Gram matrix of the first `unequal_` rows of Vt …
  std::int64_t unequal_ = 0;         // … which the first pass took as they came; all others are orthonormal
  double new_squared_ = 0;           // of the rows joined last: squares of what the basis did not hold …
  double lost_squared_ = 0;          // … and of it what was dropped
  std::int64_t known_ = 0;           // rows of Vt with their Zt; ritz_.k of them were analysed
  std::int64_t next_ = 0;            // rows behind them that the next pass multiplies
  std::int64_t kept_ = 0;            // rows of Vt after finish()
  bool cold_ = false;
  int passes_ = 0;
  int restarts_ = 0;
  double cost_ = 0;  // of the passes so far, by cost.h
  Probe probe_;
  double probed_ = std::numeric_limits<double>::infinity();  // what the probes over this basis prove
  double norm_squared_ = 0;
  Unseen unseen_;
  double energy_left_ = 0;  // root of the energy that the basis does not hold
  double sigma_correction_ = 0;
  Judgement judgement_;
  SearchOutcome outcome_ = SearchOutcome::not_converged;
};

}  // namespace spectralclip

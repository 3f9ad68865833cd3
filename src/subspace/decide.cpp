// SPDX-License-Identifier: Apache-2.0
#include "subspace/decide.h"

#include <algorithm>
#include <cmath>

namespace spectralclip {
namespace {

class Judge {
 public:
  Judge(const Findings& findings, const SearchOptions& options)
      : f_(findings), o_(options), goal_(options.tau * (1 + options.margin / 2)), h_(unseen()) {}

  Judgement run() {
    j_.wide_range = o_.tau < f_.floor;
    j_.can_improve = f_.can_improve;
    // Algorithm 2 does not look again after its update: it lowers what stands out of the rounding at all.
    const bool looks_again = o_.power_passes < 0;
    level_ = std::max(o_.level, j_.wide_range && looks_again ? f_.floor : 0.0);
    j_.above = std::count_if(f_.sigma, f_.sigma + f_.count, [&](double s) { return s > level_; });
    if (o_.rank > 0 && j_.above >= o_.rank) {
      j_.rank_full = true;
      j_.beyond_rank = j_.above > o_.rank;
      j_.above = o_.rank;
    }
    estimate_error();
    if (f_.complete || std::isinf(o_.tau)) {
      if (!f_.complete) look_at_sigma_max();
      return j_;
    }
    j_.hidden = !j_.rank_full && f_.unseen.bound > (j_.wide_range ? level_ : goal_);
    if (!j_.rank_full && !j_.wide_range) look_below_or_probe();
    if (j_.error > j_.error_allowed) want(sharpen_for_error());
    if (!j_.wide_range && f_.unseen.bound <= goal_) look_at_leftovers();
    if (j_.above == 0) look_at_sigma_max();
    return j_;
  }

 private:
  // ||H|| as far as decisions go: never quite tau, which would make every bound below infinite. While something may be
  // hidden nothing is decided yet, and what is worth reading beside the probe follows from what ||H|| is likely to be.
  [[nodiscard]] double unseen() const {
    if (f_.complete) return 0;
    const double most = std::isinf(o_.tau) && f_.count > 0 ? f_.sigma[0] : goal_;
    const double likely = f_.unseen.bound > most ? std::min(f_.unseen.typical, f_.unseen.bound) : f_.unseen.bound;
    return std::min(likely, 0.98 * most);
  }
  void want(std::int64_t count) { j_.sharpen = std::max(j_.sharpen, std::min(count, f_.count)); }

  // With a bound close to tau nearly every value has to be known exactly; a power of the probe, which lowers the bound,
  // is cheaper to read than their vectors.
  void look_below_or_probe() {
    constexpr std::int64_t kMany = 8;
    const std::int64_t before = j_.sharpen;
    look_below();
    if (!f_.probing || j_.sharpen - j_.above <= kMany) return;
    j_.hidden = true;
    j_.sharpen = before;
  }

  // A value not lowered, sigma_j with its vector off by sine_j: together with what is unseen it may be as large as
  // sigma_j^2 (1 + h^2 sine_j^2 / (goal^2 - h^2)).
  void look_below() {
    const double room = goal_ * goal_ - h_ * h_;
    for (std::int64_t i = j_.above; i < f_.count; ++i) {
      const double s = f_.sigma[i];
      const double coupled = h_ * f_.sine[i];
      if (s * s * (1 + coupled * coupled / room) > goal_ * goal_) want(i + 1);
    }
  }

  // The lowered ones keep tau and a coupling tau^2 / sigma_i h sine_i to what is unseen.
  void look_at_leftovers() {
    const double room = goal_ * goal_ - h_ * h_;
    double sum = 0;
    for (std::int64_t i = 0; i < j_.above; ++i) {
      const double coupling = o_.tau / f_.sigma[i] * h_ * f_.sine[i];
      sum += coupling * coupling;
    }
    if (sum / room > o_.margin / 2) want(j_.above);
  }

  // Vector i is off by sine_i h^2 / (sigma_i^2 - h^2) towards what is unseen, sigma_i by half of its coupling squared;
  // vectors i above and j below level mix by their couplings' product over their gap, which matters when it is small.
  void estimate_error() {
    const double h = f_.complete ? 0.0 : std::min(f_.unseen.typical, h_ > 0 ? h_ : f_.unseen.typical);
    double error = 0;
    double removed = 0;
    for (std::int64_t i = 0; i < j_.above; ++i) {
      const double s = f_.sigma[i];
      const double excess = s - o_.tau;
      const double room = std::max(s * s - h * h, s * s / 64);
      const double turned = excess * h * h * f_.sine[i] / room;
      const double shortened = 0.5 * s * h * h * f_.sine[i] * f_.sine[i] / room;
      error += 2 * turned * turned + shortened * shortened;
      for (std::int64_t j = j_.above; j < f_.count; ++j) {
        const double gap = std::max(s * s - f_.sigma[j] * f_.sigma[j], s * s / 64);
        const double mixed = std::min(excess * s / gap, s / (2 * o_.tau)) * h * h * f_.sine[i] * f_.sine[j] / s;
        error += 2 * mixed * mixed;
      }
      removed += excess * excess;
    }
    j_.error_allowed = o_.tolerance + (removed > 0 ? o_.margin * o_.tau / 200 / std::sqrt(removed) : 0.0);
    j_.error = removed > 0 ? std::sqrt(error / removed) : 0.0;
    // An error E of G^T G moves the result by at most ||E||_F / (2 tau).
    double noise = 0;
    for (std::int64_t i = 0; i < j_.above; ++i) noise += f_.noise[i] * f_.noise[i];
    const double rounding = removed > 0 ? std::sqrt(noise / removed) / (2 * o_.tau) : 0.0;
    j_.rounded = f_.can_improve && rounding > j_.error_allowed;
  }
  // Those above, and those not far below that have to be told apart from them.
  [[nodiscard]] std::int64_t sharpen_for_error() const {
    constexpr double kNear = 0.7;
    return std::count_if(f_.sigma, f_.sigma + f_.count, [&](double s) { return s > kNear * level_; });
  }
  void look_at_sigma_max() { j_.refine = f_.sigma_correction > o_.sigma_tolerance; }

  const Findings& f_;
  const SearchOptions& o_;
  double goal_;
  double h_;
  double level_ = 0;
  Judgement j_;
};

}  // namespace

Judgement judge(const Findings& findings, const SearchOptions& options) { return Judge(findings, options).run(); }

}  // namespace spectralclip

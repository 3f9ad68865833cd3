// SPDX-License-Identifier: Apache-2.0
// Global search by dlib's global_function_search: in turns the maximum of an upper bound learnt from all points
// (Malherbe and Vayatis, "Global optimization of Lipschitz functions", ICML 2017, extended) and a step of a quadratic
// model around the best point (Powell's NEWUOA). One of the outstanding candidates is a local step, the others explore.
// The only file that includes dlib.
//
// Choices made here:
// - The unit cube is searched, so a log axis is linear in the logarithm.
// - The model sees log10(value) as long as all values are positive: losses spread over decades, and without the
//   logarithm everything below a hundredth of the worst would look the same. With the first value <= 0 the plain
//   values take over, for good.
// - A trial without a value counts as worse than the worst so far by a tenth of the spread. Finite, and not far: the
//   upper bound is a Lipschitz one, a cliff of many decades would make it steep, hence useless, everywhere.
// - The first points are the centre and random ones. dlib itself would hand out the centre again and again until the
//   first result arrives, and it cannot take values that are all equal.
// - A point nearer than 1e-4 of every axis to a known one is not worth a trial: dlib is told that value at once and
//   asked again. (Merely to ask again would not do: a local step has to be answered for its radius to shrink.)
#include <dlib/global_optimization/global_function_search.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sweep/searchers.h"
#include "sweep/small_lapack.h"

namespace spectralclip::lab {
namespace {

constexpr double kSamePoint = 1e-4;
constexpr double kPenaltyShare = 0.1;
constexpr int kAttempts = 16;  // every second one explores; then at random

using Column = dlib::matrix<double, 0, 1>;
using Model = dlib::global_function_search;

Column column_of(const Point& units) {
  Column x(static_cast<long>(units.size()));
  for (long i = 0; i < x.size(); ++i) x(i) = units[static_cast<std::size_t>(i)];
  return x;
}

Point point_of(const Column& x) { return {x.begin(), x.end()}; }

bool same_point(const Point& a, const Point& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > kSamePoint) return false;
  return true;
}

struct Evaluation {
  Point units;
  std::optional<double> value;
};

// Outstanding. A request is the model's own record of it; there is none for points that the model did not propose.
struct Pending {
  Point units;
  std::unique_ptr<dlib::function_evaluation_request> request;
};

class GlobalSearch final : public NumberedSearch {
 public:
  GlobalSearch(SearchSpace space, std::uint64_t seed) : space_(std::move(space)), seed_(seed) { link_small_lapack(); }

  Candidate ask() override {
    const std::int64_t trial = take_number();
    if (stale_) rebuild();
    Pending pending = model_ ? propose(trial) : Pending{first_units(trial), nullptr};
    Candidate candidate{trial, values_at(space_, pending.units)};
    pending_.insert_or_assign(trial, std::move(pending));
    return candidate;
  }

  void tell(const Candidate& candidate, std::optional<double> value) override {
    if (value && !std::isfinite(*value)) value.reset();
    adopt(candidate);
    const auto found = pending_.find(candidate.trial);
    const Pending pending = std::move(found->second);
    pending_.erase(found);
    evaluations_.push_back({pending.units, value});
    if (value && *value <= 0.0 && log_) {
      log_ = false;
      stale_ = true;
    }
    if (!pending.request || stale_) {
      stale_ = true;  // the model learns of it when it is built anew
    } else {
      pending.request->set(-score(value));
    }
  }

  void adopt(const Candidate& candidate) override {
    NumberedSearch::adopt(candidate);
    if (!pending_.contains(candidate.trial))
      pending_.emplace(candidate.trial, Pending{units_of(space_, candidate.values), nullptr});
  }

 private:
  // Smaller is better; dlib gets the negative.
  [[nodiscard]] double transformed(double value) const { return log_ ? std::log10(value) : value; }

  struct Range {
    double best = std::numeric_limits<double>::infinity();
    double worst = -std::numeric_limits<double>::infinity();
  };
  [[nodiscard]] Range range() const {
    Range range;
    for (const Evaluation& evaluation : evaluations_) {
      if (!evaluation.value) continue;
      range.best = std::min(range.best, transformed(*evaluation.value));
      range.worst = std::max(range.worst, transformed(*evaluation.value));
    }
    return range;
  }

  [[nodiscard]] double score(std::optional<double> value) const {
    if (value) return transformed(*value);
    const auto [best, worst] = range();
    return worst + (worst > best ? kPenaltyShare * (worst - best) : 1.0);
  }

  [[nodiscard]] Point first_units(std::int64_t trial) const {
    return trial == 1 ? Point(space_.size(), 0.5) : random_units(space_.size(), seed_, trial);
  }

  // Enough to fit a plane, one value at least, and not all the same.
  [[nodiscard]] bool can_build() const {
    if (evaluations_.size() < std::max<std::size_t>(3, space_.size() + 2)) return false;
    const auto [best, worst] = range();
    if (best > worst) return false;  // no value yet
    for (const Evaluation& evaluation : evaluations_)
      if (score(evaluation.value) != best) return true;
    return false;
  }

  // A new model from everything known. The requests of the old one die with it: they are told like strangers' points.
  // dlib's generator is seeded by the number of evaluations too, lest it repeat the points of the old model.
  void rebuild() {
    if (!can_build()) return;
    for (auto& [trial, pending] : pending_) pending.request.reset();
    std::vector<dlib::function_evaluation> known;
    for (const Evaluation& evaluation : evaluations_)
      known.emplace_back(column_of(evaluation.units), -score(evaluation.value));
    const auto axes = static_cast<long>(space_.size());
    const dlib::function_spec cube(dlib::zeros_matrix<double>(axes, 1), dlib::ones_matrix<double>(axes, 1));
    model_.emplace(std::vector<dlib::function_spec>{cube}, std::vector<std::vector<dlib::function_evaluation>>{known});
    const std::uint64_t seed = seed_ * 0x9E3779B97F4A7C15U + evaluations_.size();
    model_->set_seed(static_cast<time_t>(seed >> 1));
    stale_ = false;
  }

  [[nodiscard]] const Evaluation* known_at(const Point& units) const {
    for (const Evaluation& evaluation : evaluations_)
      if (same_point(evaluation.units, units)) return &evaluation;
    return nullptr;
  }
  [[nodiscard]] bool is_pending(const Point& units) const {
    return std::any_of(pending_.begin(), pending_.end(),
                       [&units](const auto& entry) { return same_point(entry.second.units, units); });
  }

  [[nodiscard]] Pending propose(std::int64_t trial) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto request = std::make_unique<dlib::function_evaluation_request>(model_->get_next_x());
      Point units = point_of(request->x());
      if (const Evaluation* known = known_at(units)) {
        request->set(-score(known->value));
      } else if (!is_pending(units)) {
        return {std::move(units), std::move(request)};
      }
    }
    return {random_units(space_.size(), seed_, trial), nullptr};
  }

  SearchSpace space_;
  std::uint64_t seed_;
  bool log_ = true;
  bool stale_ = false;  // something is known that the model does not know
  std::vector<Evaluation> evaluations_;
  std::optional<Model> model_;
  std::map<std::int64_t, Pending> pending_;  // by trial
};

}  // namespace

std::unique_ptr<Search> make_global_search(const SearchSpace& space, std::uint64_t seed) {
  return std::make_unique<GlobalSearch>(space, seed);
}

}  // namespace spectralclip::lab

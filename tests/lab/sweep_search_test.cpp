// SPDX-License-Identifier: Apache-2.0
// Searchers on functions whose minimum is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numbers>
#include <set>

#include "spectralclip/error.h"
#include "sweep/search.h"

namespace spectralclip::lab {
namespace {

using Function = std::function<std::optional<double>(const Point&)>;
constexpr double kPi = std::numbers::pi;

std::optional<double> branin(const Point& p) {  // three equal minima, 0.397887
  const double inner = p[1] - 5.1 / (4 * kPi * kPi) * p[0] * p[0] + 5 / kPi * p[0] - 6;
  return inner * inner + 10 * (1 - 1 / (8 * kPi)) * std::cos(p[0]) + 10;
}
const SearchSpace kBraninBox = {{"x", -5, 10}, {"y", 0, 15}};

std::optional<double> rosenbrock(const Point& p) {  // -1 at (1, 1); below zero near it, so the logarithm is given up
  return 100 * std::pow(p[1] - p[0] * p[0], 2) + std::pow(1 - p[0], 2) - 1;
}
const SearchSpace kRosenbrockBox = {{"x", -2, 2}, {"y", -1, 3}};

std::optional<double> waves(const Point& p) {  // -1.899599 at 5.1457; several local minima
  return std::sin(p[0]) + std::sin(10 * p[0] / 3);
}
const SearchSpace kWavesBox = {{"x", -2.7, 7.5}};

// A loss over the learning rate: falls over two decades, a sharp minimum of 0.001 at 0.02, then nothing.
std::optional<double> learning_rate(const Point& p) {
  const double decades = std::log10(p[0] / 2e-2);
  if (decades > 0.1) return std::nullopt;
  return 1e-3 * std::pow(10.0, decades < 0 ? -2.5 * decades : 10.5 * decades);
}
const SearchSpace kRateBox = {{"lr", 1e-4, 1e-1, Scale::log}};

// Smallest value found with `budget` trials, `parallel` of them outstanding; the oldest one is told first.
double best_of(SearchKind kind, const SearchSpace& space, const Function& function, int budget, std::uint64_t seed,
               std::size_t parallel = 1) {
  const std::unique_ptr<Search> search = make_search(kind, space, seed);
  double best = std::numeric_limits<double>::infinity();
  std::deque<Candidate> outstanding;
  const auto finish_one = [&] {
    const std::optional<double> value = function(outstanding.front().values);
    search->tell(outstanding.front(), value);
    best = std::min(best, value.value_or(best));
    outstanding.pop_front();
  };
  for (int i = 0; i < budget; ++i) {
    outstanding.push_back(search->ask());
    if (outstanding.size() == parallel) finish_one();
  }
  while (!outstanding.empty()) finish_one();
  return best;
}

double median_of(SearchKind kind, const SearchSpace& space, const Function& function, int budget,
                 std::size_t parallel = 1) {
  std::vector<double> values;
  for (std::uint64_t seed = 1; seed <= 9; ++seed)
    values.push_back(best_of(kind, space, function, budget, seed, parallel));
  std::nth_element(values.begin(), values.begin() + 4, values.end());
  return values[4];
}

// Both at the same budget: the median error over nine seeds is below `error` and `factor` times below random's.
void expect_found(const SearchSpace& space, const Function& function, double minimum, int budget, double error,
                  double factor, std::size_t parallel = 1) {
  const double global = median_of(SearchKind::global, space, function, budget, parallel) - minimum;
  const double random = median_of(SearchKind::random, space, function, budget, parallel) - minimum;
  EXPECT_GE(global, -1e-6);
  EXPECT_LT(global, error);
  EXPECT_LT(global * factor, random) << "global " << global << ", random " << random;
}

TEST(GlobalSearch, FindsBraninsMinimumIn60) { expect_found(kBraninBox, branin, 0.397887, 60, 1e-4, 1000); }
TEST(GlobalSearch, FindsRosenbrocksMinimumIn100) { expect_found(kRosenbrockBox, rosenbrock, -1.0, 100, 1e-3, 50); }
TEST(GlobalSearch, FindsTheDeepestOfManyWavesIn40) { expect_found(kWavesBox, waves, -1.899599, 40, 1e-4, 50); }
TEST(GlobalSearch, FindsTheBestLearningRateBesideTheCliffIn40) {
  expect_found(kRateBox, learning_rate, 1e-3, 40, 2e-5, 10);
}
TEST(GlobalSearch, FindsThemWithFourOutstanding) {  // one of four is a local step: a larger budget
  expect_found(kBraninBox, branin, 0.397887, 120, 5e-3, 20, 4);
  expect_found(kWavesBox, waves, -1.899599, 60, 1e-3, 5, 4);
  expect_found(kRateBox, learning_rate, 1e-3, 60, 5e-5, 2, 4);
}

TEST(GlobalSearch, AsksForDistinctPointsBeforeAndAfterTheFirstResult) {
  const auto search = make_search(SearchKind::global, kBraninBox, 3);
  std::set<Point> points;
  std::vector<Candidate> outstanding;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) {
      outstanding.push_back(search->ask());
      EXPECT_TRUE(points.insert(outstanding.back().values).second);
    }
    for (const Candidate& candidate : outstanding) search->tell(candidate, branin(candidate.values));
    outstanding.clear();
  }
  EXPECT_EQ(points.size(), 40U);
}

TEST(GlobalSearch, StaysInTheBoxAndSurvivesWhatTrialsDo) {
  const std::vector<Function> functions = {
      [](const Point&) { return std::nullopt; },              // all diverge
      [](const Point&) { return 0.25; },                      // all the same
      [](const Point& p) { return p[0] > 0 ? p[0] : -1e9; },  // not continuous, both signs
      [](const Point& p) { return p[0] > 9.9 ? 1.0 : std::numeric_limits<double>::quiet_NaN(); },
      [](const Point& p) { return std::pow(10.0, 20 * p[0]); },  // 300 decades
      [](const Point&) { return std::numeric_limits<double>::infinity(); }};
  for (const Function& function : functions) {
    const auto search = make_search(SearchKind::global, kBraninBox, 1);
    for (int i = 0; i < 40; ++i) {
      const Candidate candidate = search->ask();
      for (std::size_t axis = 0; axis < 2; ++axis) {
        EXPECT_GE(candidate.values[axis], kBraninBox[axis].low);
        EXPECT_LE(candidate.values[axis], kBraninBox[axis].high);
      }
      search->tell(candidate, function(candidate.values));
    }
  }
}

// History of a search with two outstanding, told newest first now and then; then what it would ask next.
struct History {
  std::vector<PastAsk> asks;
  std::vector<PastTell> tells;
  std::vector<Candidate> outstanding;
};
History make_history(Search& search, int asks, const Function& function) {
  History history;
  for (int i = 0; i < asks; ++i) {
    history.asks.push_back({search.ask(), static_cast<std::int64_t>(history.tells.size())});
    history.outstanding.push_back(history.asks.back().candidate);
    if (history.outstanding.size() < 2) continue;
    const auto told = i % 3 == 0 ? history.outstanding.end() - 1 : history.outstanding.begin();
    history.tells.push_back({*told, function(told->values)});
    search.tell(*told, history.tells.back().value);
    history.outstanding.erase(told);
  }
  return history;
}

TEST(Search, ResumesWithTheSameCandidates) {
  for (const SearchKind kind : {SearchKind::grid, SearchKind::random, SearchKind::global}) {
    SearchSpace space = kRateBox;
    space[0].points = 40;
    const auto search = make_search(kind, space, 5);
    History history = make_history(*search, 25, learning_rate);
    const auto resumed = resume_search(kind, space, 5, history.asks, history.tells);
    for (Candidate& open : history.outstanding) {  // finished after the resume
      search->tell(open, learning_rate(open.values));
      resumed->tell(open, learning_rate(open.values));
    }
    for (int i = 0; i < 10; ++i) {
      const Candidate expected = search->ask();
      const Candidate candidate = resumed->ask();
      EXPECT_EQ(candidate.trial, expected.trial);
      EXPECT_EQ(candidate.values, expected.values) << name_of(kind) << " " << i;
      search->tell(expected, learning_rate(expected.values));
      resumed->tell(candidate, learning_rate(candidate.values));
    }
  }
}

// A history that the searcher would not have made itself: no candidate and no number comes again.
TEST(Search, ResumesAForeignHistoryWithoutRepeats) {
  const auto other = make_search(SearchKind::random, kBraninBox, 99);
  const History history = make_history(*other, 20, branin);
  std::set<Point> points;
  for (const PastAsk& ask : history.asks) points.insert(ask.candidate.values);
  const auto resumed = resume_search(SearchKind::global, kBraninBox, 5, history.asks, history.tells);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 60; ++i) {
    const Candidate candidate = resumed->ask();
    EXPECT_EQ(candidate.trial, 21 + i);
    EXPECT_TRUE(points.insert(candidate.values).second);
    resumed->tell(candidate, branin(candidate.values));
    best = std::min(best, *branin(candidate.values));
  }
  EXPECT_LT(best, 0.397887 + 1e-3);  // and what was told is used
}

TEST(GlobalSearch, IsDeterministicAndDependsOnItsSeed) {
  const auto sequence = [](std::uint64_t seed) {
    const auto search = make_search(SearchKind::global, kBraninBox, seed);
    std::vector<Point> points;
    for (int i = 0; i < 30; ++i) {
      const Candidate candidate = search->ask();
      points.push_back(candidate.values);
      search->tell(candidate, branin(candidate.values));
    }
    return points;
  };
  EXPECT_EQ(sequence(1), sequence(1));
  EXPECT_NE(sequence(1), sequence(2));
}

TEST(GridSearch, CoversAllPointsOnceThenRefuses) {
  const SearchSpace space = {{"a", 0, 1, Scale::linear, 3}, {"b", 1, 100, Scale::log, 5}};
  const auto search = make_search(SearchKind::grid, space, 1);
  std::set<Point> points;
  for (std::int64_t trial = 1; trial <= 15; ++trial) {
    const Candidate candidate = search->ask();
    EXPECT_EQ(candidate.trial, trial);
    points.insert(candidate.values);
  }
  EXPECT_EQ(points.size(), 15U);
  EXPECT_THROW((void)search->ask(), InvalidArgument);
}

TEST(RandomSearch, IsReproducibleByTrialNumber) {
  const auto all = make_search(SearchKind::random, kBraninBox, 7);
  const auto later = make_search(SearchKind::random, kBraninBox, 7);
  const auto other = make_search(SearchKind::random, kBraninBox, 8);
  later->adopt({3, {0, 0}});
  std::vector<Point> points;
  for (int i = 0; i < 5; ++i) points.push_back(all->ask().values);
  const Candidate fourth = later->ask();
  EXPECT_EQ(fourth.trial, 4);
  EXPECT_EQ(fourth.values, points[3]);
  EXPECT_NE(other->ask().values, points[0]);
}

// Kolmogorov-Smirnov distance to the uniform distribution over decades: 1.63 / sqrt(n) is exceeded once in a hundred.
TEST(RandomSearch, IsUniformInTheLogarithm) {
  constexpr int kCount = 4000;
  const auto search = make_search(SearchKind::random, kRateBox, 1);
  std::vector<double> units;
  for (int i = 0; i < kCount; ++i) units.push_back((std::log10(search->ask().values[0]) + 4) / 3);
  std::sort(units.begin(), units.end());
  double distance = 0.0;
  for (int i = 0; i < kCount; ++i)
    distance = std::max(distance, std::abs(units[static_cast<std::size_t>(i)] - (i + 0.5) / kCount));
  EXPECT_LT(distance, 1.63 / std::sqrt(kCount));
}

TEST(Search, NamesAreKnownOrRefused) {
  for (const SearchKind kind : {SearchKind::grid, SearchKind::random, SearchKind::global})
    EXPECT_EQ(search_named(name_of(kind)), kind);
  EXPECT_THROW((void)search_named("bayes"), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::lab

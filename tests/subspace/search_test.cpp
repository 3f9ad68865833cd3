// SPDX-License-Identifier: Apache-2.0
// The search on matrices of known spectrum: what it finds, when it says so, how wide it grows and shrinks, how often it
// reads, and what it leaves alone.
#include "subspace/search.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/fused_pass.h"
#include "kernels/scalar_convert.h"
#include "random/uniform.h"
#include "subspace/search_driver.h"
#include "support/factorizations.h"
#include "support/oracle.h"
#include "support/reference.h"

namespace spectralclip {
namespace {

using Eigen::Index;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using testing::drive;

RowMajor orthonormal(Index n, Index r, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const Eigen::MatrixXd X = Eigen::MatrixXd::NullaryExpr(n, r, [&] { return normal(random); });
  return spectralclip::testing::orthonormal_basis(X);
}

// `above` values from 3 upwards, the rest from a quarter down to an eighth; tau = 1 lies in the gap.
Eigen::VectorXd gapped(Index r, Index above) {
  return Eigen::VectorXd::NullaryExpr(r, [&](Index i) {
    if (i < above) return 3.0 + static_cast<double>(above - i);
    return 0.25 - 0.125 * static_cast<double>(i - above) / static_cast<double>(r);
  });
}

template <class T>
constexpr double kEpsilonOf = static_cast<double>(std::numeric_limits<T>::epsilon());

template <class T>
struct Problem {
  Eigen::VectorXd sigma;
  RowMajor V;  // n x r
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> G;
  SearchOptions options;
  SubspaceState state;
  Workspace workspace;
  std::uint64_t step = 0;
  std::vector<std::int64_t> widths;  // of the passes of the latest search

  Problem(Index m, Index n, const Eigen::VectorXd& sigma_)
      : sigma(sigma_),
        V(orthonormal(n, sigma_.size(), 2)),
        G((orthonormal(m, sigma_.size(), 1) * sigma_.asDiagonal() * V.transpose()).template cast<T>()) {
    options.tau = 1;
    options.level = 1;
    options.max_passes = 8;  // as the clip options have it
  }
  // The same values along right vectors turned by about `tangent`.
  void turn(double tangent, unsigned seed) {
    const RowMajor towards = orthonormal(V.rows(), V.cols(), seed);
    const Eigen::MatrixXd turned = V + tangent * towards;
    V = spectralclip::testing::orthonormal_basis(turned);
    G = (orthonormal(G.rows(), sigma.size(), 1) * sigma.asDiagonal() * V.transpose()).template cast<T>();
  }
  [[nodiscard]] AnyMatrix matrix() { return MatrixView<T>(G.data(), G.rows(), G.cols()); }
  SubspaceSearch<T> search() {
    return {G.rows(), G.cols(), options, RandomStream{7, 8, step++, 0}, state, workspace.basis};
  }
  // One step that must come to `expected`, remembered.
  SubspaceSearch<T> run(SearchOutcome expected = SearchOutcome::settled, Executor& executor = serial_executor()) {
    SubspaceSearch<T> s = search();
    widths = drive(s, matrix(), workspace.pass, executor);
    EXPECT_EQ(s.outcome(), expected) << "passes over " << ::testing::PrintToString(widths) << " columns";
    if (s.outcome() != SearchOutcome::out_of_range) s.remember();
    return s;
  }
};

// Ritz values err by the square of the vectors' error; the search asks for vectors within `tolerance`.
template <class T>
void expect_triplets(const SubspaceSearch<T>& s, const Problem<T>& p, std::int64_t count) {
  ASSERT_EQ(s.above(), count);
  const double rounding = 64 * std::sqrt(static_cast<double>(p.G.cols())) * kEpsilonOf<T>;
  const double limit = p.options.tolerance + rounding;
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_LE(std::abs(s.sigma()[i] - p.sigma[i]), limit * p.sigma[0]) << i;
    const T* v = s.vectors() + i * kernels::padded(p.G.cols());
    double along = 0;
    for (Index j = 0; j < p.G.cols(); ++j) along += static_cast<double>(v[j]) * p.V(j, i);
    EXPECT_LE(std::abs(std::abs(along) - 1), limit) << i;
  }
}

// The vectors that an update would use, n x above.
template <class T>
Eigen::MatrixXd vectors_of(const SubspaceSearch<T>& s, Index cols, Index count) {
  return Eigen::MatrixXd::NullaryExpr(
      cols, count, [&](Index j, Index i) { return static_cast<double>(s.vectors()[i * kernels::padded(cols) + j]); });
}

bool same(const SubspaceState& a, const SubspaceState& b) {
  return a.cols == b.cols && a.columns == b.columns && a.kept == b.kept && a.calm_steps == b.calm_steps &&
         a.clipped_lately == b.clipped_lately && a.V == b.V;
}

template <class T>
class SearchTest : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SearchTest, Scalars);

TYPED_TEST(SearchTest, FindsWhatIsAbove) {
  for (const std::int64_t above : {1, 2, 3}) {
    Problem<TypeParam> p(96, 70, gapped(70, above));
    const auto s = p.run();
    expect_triplets(s, p, above);
    EXPECT_EQ(p.widths.front(), kFirstColumns);
    EXPECT_NEAR(s.norm_squared(), p.sigma.squaredNorm(), 64 * kEpsilonOf<TypeParam> * p.sigma.squaredNorm());
    const auto count = static_cast<Index>(std::max<std::int64_t>(above, kLeastKept));
    const Eigen::MatrixXd found = vectors_of(s, 70, count);
    EXPECT_LE((found.transpose() * found - Eigen::MatrixXd::Identity(count, count)).norm(), 64 * kEpsilonOf<TypeParam>);
  }
}

// A few directions stand out of a low bulk, as in gradients: one read decides.
TYPED_TEST(SearchTest, WarmStepsReadOnceWhenNothingIsAbove) {
  Eigen::VectorXd sigma = Eigen::VectorXd::LinSpaced(70, 0.05, 0.01);
  sigma.head(4) << 0.9, 0.7, 0.5, 0.3;
  Problem<TypeParam> p(96, 70, sigma);
  p.run();
  for (int step = 0; step < 3; ++step) {
    const auto s = p.run();
    EXPECT_EQ(s.above(), 0);
    EXPECT_EQ(s.passes(), 1);
  }
}

Eigen::VectorXd standing_out(std::initializer_list<double> head, double bulk) {
  Eigen::VectorXd sigma = Eigen::VectorXd::LinSpaced(70, bulk, bulk / 5);
  std::copy(head.begin(), head.end(), sigma.data());
  return sigma;
}

// Directions that were held but have turned: what follows reads no more columns than there are such directions.
TYPED_TEST(SearchTest, TurnedDirectionsAreSharpenedByANarrowPass) {
  Problem<TypeParam> p(96, 70, standing_out({3.0, 2.5, 0.7, 0.5}, 0.25));
  p.run();
  for (unsigned step = 0; step < 3; ++step) {
    p.turn(0.1, 10 + step);
    const std::int64_t kept = p.state.kept;
    EXPECT_GE(kept, kLeastKept) << "vectors below level are not forgotten";
    const auto s = p.run();
    EXPECT_GE(s.passes(), 2);
    ASSERT_EQ(p.widths.size(), static_cast<std::size_t>(s.passes()));
    EXPECT_EQ(p.widths[0], kept + kFreshColumns);
    for (std::size_t i = 1; i < p.widths.size(); ++i) EXPECT_LE(p.widths[i], 4) << i;
    expect_triplets(s, p, 2);
  }
}

// Nothing that was read is thrown away: the values seen only grow from pass to pass, and so does the basis.
TYPED_TEST(SearchTest, TheBasisOnlyGrows) {
  Problem<TypeParam> p(96, 70, Eigen::VectorXd::LinSpaced(70, 2, 0.02));
  p.options.max_columns = 60;
  auto cold = p.search();
  drive(cold, p.matrix(), p.workspace.pass, serial_executor());
  cold.remember();
  auto s = p.search();
  std::vector<double> before;
  std::int64_t known = 0;
  for (bool more = true; more;) {
    known += s.columns().k;
    run_pass(p.matrix(), s.columns(), s.result(), p.workspace.pass, serial_executor());
    more = s.take();
    EXPECT_EQ(s.found(), known);
    EXPECT_LE(known, std::max<std::int64_t>(p.options.max_columns, p.state.kept + kFreshColumns));
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_GE(s.sigma()[i], before[i] - 64 * kEpsilonOf<TypeParam> * p.sigma[0]) << i;
      EXPECT_LE(s.sigma()[i], p.sigma[static_cast<Index>(i)] * (1 + 64 * kEpsilonOf<TypeParam>)) << i;
    }
    before.assign(s.sigma(), s.sigma() + s.above());
  }
  EXPECT_GE(s.passes(), 2);
}

// One pass sees the value of a turned direction short; most of that is put right.
TYPED_TEST(SearchTest, SigmaMaxIsCorrectedForTheAngle) {
  Problem<TypeParam> p(96, 70, standing_out({0.9, 0.6, 0.5, 0.4}, 0.35));
  p.run();
  p.options.sigma_tolerance = 1;                                              // one pass has to do …
  p.options.tau = p.options.level = std::numeric_limits<double>::infinity();  // … whatever it leaves unseen
  double raw = 0, corrected = 0;
  for (unsigned step = 0; step < 8; ++step) {
    p.turn(0.3, 20 + step);
    const auto s = p.run();
    EXPECT_EQ(s.passes(), 1);
    raw += std::abs(s.sigma()[0] - p.sigma[0]);
    corrected += std::abs(s.sigma_max() - p.sigma[0]);
  }
  EXPECT_GT(raw, 0.002 * 8 * p.sigma[0]) << "the case must have something to correct";
  EXPECT_LT(corrected, raw / 2);
}

// The correction may overshoot, but never beyond the accuracy that was asked for.
TYPED_TEST(SearchTest, SigmaMaxIsAsAccurateAsWanted) {
  for (const double bulk : {0.05, 0.1, 0.2, 0.35}) {
    Problem<TypeParam> p(96, 70, standing_out({0.9, 0.6, 0.5, 0.4}, bulk));
    p.run();
    for (unsigned step = 0; step < 8; ++step) {
      p.turn(0.3, 20 + step);
      const auto s = p.run();
      EXPECT_NEAR(s.sigma_max(), p.sigma[0], p.options.sigma_tolerance * p.sigma[0])
          << "bulk " << bulk << ", step " << step;
    }
  }
}

// … and where the correction is more than is wanted, the vector is read again.
TYPED_TEST(SearchTest, SigmaMaxIsReadAgainWhereItIsFarOff) {
  Problem<TypeParam> p(96, 70, standing_out({0.9, 0.6, 0.5, 0.4}, 0.1));
  p.run();
  p.turn(0.3, 30);
  p.options.sigma_tolerance = 1e-4;
  const auto s = p.run();
  EXPECT_GE(s.passes(), 2);
  EXPECT_NEAR(s.sigma_max(), p.sigma[0], 4 * 1e-4 * p.sigma[0]);
}

// Products are of the size of sigma^2, their inverses may be larger than a float can be.
TYPED_TEST(SearchTest, TinyMatricesOfLowRankKeepFiniteVectors) {
  for (const double scale : {1e-11, 1e-10, 1e-8}) {
    SCOPED_TRACE(scale);
    Problem<TypeParam> p(20, 16, scale * Eigen::VectorXd::NullaryExpr(16, [](Index i) { return std::pow(1e-4, i); }));
    p.options.tau = p.options.level = 0.5 * scale;
    for (int step = 0; step < 2; ++step) {
      const auto s = p.run();
      expect_triplets(s, p, 1);
    }
  }
}

// A flat spectrum well below tau: the fresh columns see much, but nothing that could exceed it.
TYPED_TEST(SearchTest, AFlatSpectrumFarBelowIsReadOnce) {
  Problem<TypeParam> p(96, 70, gapped(70, 0));
  p.options.tau = p.options.level = 10 * p.sigma[0];
  p.run();
  for (int step = 0; step < 3; ++step) EXPECT_EQ(p.run().passes(), 1);
}

TYPED_TEST(SearchTest, AnInfiniteLevelOnlyMeasures) {
  Problem<TypeParam> p(96, 70, gapped(70, 2));
  p.options.tau = p.options.level = std::numeric_limits<double>::infinity();
  p.options.sigma_tolerance = 1e-3;
  const auto s = p.run();
  EXPECT_EQ(s.above(), 0);
  EXPECT_NEAR(s.sigma_max(), p.sigma[0], 1e-3 * p.sigma[0]);
}

TYPED_TEST(SearchTest, SketchedReadsExactlyAsOftenAsAsked) {
  for (const int power_passes : {0, 1, 2, 5}) {
    Problem<TypeParam> p(96, 70, gapped(70, 3));
    p.options.power_passes = power_passes;
    p.options.rank = 10;
    p.options.oversampling = 5;
    auto s = p.search();
    p.widths = drive(s, p.matrix(), p.workspace.pass, serial_executor());
    if (power_passes == 5) {
      EXPECT_EQ(s.outcome(), SearchOutcome::settled);
    }
    if (power_passes == 0) {
      EXPECT_EQ(s.outcome(), SearchOutcome::not_converged) << "random columns alone cannot be sure of anything";
    }
    EXPECT_EQ(s.passes(), 1 + power_passes);
    EXPECT_EQ(p.widths.front(), 16) << "rank + oversampling, made even";
    EXPECT_LE(p.widths.back(), 16 + kFreshColumns) << "beside it the probe, with the last pass";
    EXPECT_EQ(s.above(), 3);
    EXPECT_GE(s.unseen().bound, p.sigma[s.found()] * (1 - 64 * kEpsilonOf<TypeParam>));
  }
}

TYPED_TEST(SearchTest, MaxPassesIsALimit) {
  for (const int most : {1, 2, 3}) {
    Problem<TypeParam> p(96, 70, Eigen::VectorXd::LinSpaced(70, 2, 0.9));  // no gap to converge by
    p.options.rank = 3;
    p.options.tolerance = p.options.margin = 1e-12;
    p.options.max_passes = most;
    EXPECT_EQ(p.run(SearchOutcome::not_converged).passes(), most);
  }
}

TYPED_TEST(SearchTest, RankGrowsUntilEverythingAboveIsFound) {
  Problem<TypeParam> p(96, 70, gapped(70, 10));
  const auto s = p.run();
  expect_triplets(s, p, 10);
  EXPECT_EQ(p.state.columns, 12) << "those near tau and two more";
  EXPECT_EQ(p.state.kept, 10) << "what there was to keep";
  expect_triplets(p.run(), p, 10);
  EXPECT_EQ(p.widths.front(), 10 + kFreshColumns);
  p.run();
  EXPECT_EQ(p.widths.front(), 12 + kFreshColumns) << "the width is remembered";
}

TYPED_TEST(SearchTest, GrowthEndsAtMaxColumns) {
  Problem<TypeParam> p(96, 70, gapped(70, 40));
  p.options.max_columns = 16;
  p.options.max_kept = 8;
  const auto s = p.run(SearchOutcome::exhausted);
  EXPECT_LE(s.found(), 16);
  EXPECT_GE(s.above(), 12);
  EXPECT_LE(s.above(), 16);
  EXPECT_LE(p.state.columns, p.options.max_kept) << "a step's columns leave room for new ones";
}

TYPED_TEST(SearchTest, GrowthCanReachTheWholeMatrix) {
  for (const auto& [m, n] : {std::pair<Index, Index>{20, 50}, {50, 20}, {20, 20}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n);
    Problem<TypeParam> p(m, n, Eigen::VectorXd::LinSpaced(20, 9, 2));
    const auto s = p.run();
    EXPECT_TRUE(s.complete());
    expect_triplets(s, p, 20);
  }
}

TYPED_TEST(SearchTest, AFixedRankDoesNotGrow) {
  Problem<TypeParam> p(96, 70, gapped(70, 5));
  p.options.rank = 3;
  const auto s = p.run();
  EXPECT_EQ(s.above(), 3);
  EXPECT_TRUE(s.judgement().rank_full);
  EXPECT_TRUE(s.judgement().beyond_rank);
  EXPECT_EQ(p.widths.front(), kFirstColumns);
  EXPECT_EQ(p.state.columns, 6) << "rank + 2, made even";
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(p.run().above(), 3);
    EXPECT_LE(p.widths.front(), 6 + kFreshColumns);
    EXPECT_EQ(p.state.columns, 6);
  }
}

TYPED_TEST(SearchTest, ARankThatIsNotReachedLooksForTheRest) {
  Problem<TypeParam> p(96, 70, gapped(70, 3));
  p.options.rank = 4;
  const auto s = p.run();
  expect_triplets(s, p, 3);
  EXPECT_FALSE(s.judgement().rank_full);
  EXPECT_LT(s.unseen().bound, p.options.tau * (1 + p.options.margin));
}

// Grown for heavy steps, given back after sixteen calm ones.
TYPED_TEST(SearchTest, WidthShrinksAfterCalmSteps) {
  Problem<TypeParam> heavy(96, 70, gapped(70, 20));
  heavy.run();
  ASSERT_EQ(heavy.state.columns, 22);
  Problem<TypeParam> calm(96, 70, gapped(70, 1));
  calm.state = heavy.state;
  for (int step = 0; step < 15; ++step) {
    calm.run();
    EXPECT_EQ(calm.state.columns, 22) << step;
    EXPECT_EQ(calm.state.calm_steps, step + 1);
  }
  for (int step = 0; step < 20; ++step) {
    calm.run();
    EXPECT_EQ(calm.state.columns, kLeastKept) << "never below that";
    EXPECT_EQ(calm.state.kept, kLeastKept);
    EXPECT_EQ(calm.state.calm_steps, 0);
  }
  Problem<TypeParam> busier(96, 70, gapped(70, 5));
  busier.state = calm.state;
  busier.run();
  EXPECT_EQ(busier.state.columns, 8) << "five and two more, made even, at once";
}

TYPED_TEST(SearchTest, AHeavyStepStartsTheCalmAgain) {
  Problem<TypeParam> p(96, 70, gapped(70, 1));
  p.run();
  p.state.columns = 16;
  p.state.calm_steps = 0;
  for (int step = 0; step < 15; ++step) p.run();
  EXPECT_EQ(p.state.calm_steps, 15);
  Problem<TypeParam> heavy(96, 70, gapped(70, 14));
  heavy.state = p.state;
  heavy.run();
  EXPECT_EQ(heavy.state.calm_steps, 0);
  EXPECT_EQ(heavy.state.columns, 16);
}

// The width follows what is above tau, not what is near it.
TYPED_TEST(SearchTest, ValuesBelowTauDoNotWiden) {
  Problem<TypeParam> p(96, 70, standing_out({1.5, 0.9, 0.8, 0.7, 0.65, 0.6, 0.3}, 0.05));
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(p.run().above(), 1);
    EXPECT_EQ(p.state.columns, kLeastKept);
    EXPECT_EQ(p.state.kept, kLeastKept);
  }
}

TYPED_TEST(SearchTest, NotFiniteLeavesTheStateAsItWas) {
  for (const auto bad : {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity()}) {
    for (const Index at : {Index{0}, Index{3000}, Index{96 * 70 - 1}}) {
      Problem<TypeParam> p(96, 70, gapped(70, 2));
      p.run();
      const SubspaceState before = p.state;
      p.G.data()[at] = bad;
      EXPECT_EQ(p.run(SearchOutcome::out_of_range).passes(), 1);
      EXPECT_TRUE(same(p.state, before));
    }
  }
}

TYPED_TEST(SearchTest, ZeroAndExtremeMatricesAreOutOfRange) {
  for (const double scale : {0.0, sizeof(TypeParam) == 4 ? 1e-20 : 1e-150, sizeof(TypeParam) == 4 ? 1e18 : 1e150}) {
    Problem<TypeParam> p(96, 70, gapped(70, 2));
    p.G *= static_cast<TypeParam>(scale);
    SCOPED_TRACE(scale);
    p.run(SearchOutcome::out_of_range);
    EXPECT_EQ(p.state.kept, 0);
  }
}

// A direction that the tracked vectors do not hold at all.
TYPED_TEST(SearchTest, ANewSpikeIsFoundInItsFirstStep) {
  Problem<TypeParam> p(96, 70, gapped(70, 1));
  for (int step = 0; step < 3; ++step) p.run();
  Problem<TypeParam> spiked(96, 70, gapped(70, 1));
  spiked.sigma[40] = 50;
  spiked.G = (orthonormal(96, 70, 1) * spiked.sigma.asDiagonal() * spiked.V.transpose()).template cast<TypeParam>();
  spiked.state = p.state;
  spiked.step = p.step;
  const auto s = spiked.run();
  EXPECT_EQ(s.above(), 2);
  EXPECT_NEAR(s.sigma()[0], 50, spiked.options.tolerance * 50);
}

TYPED_TEST(SearchTest, EqualBitsOnAnyNumberOfThreads) {
  Problem<TypeParam> one(2100, 1100, gapped(12, 3));
  const auto expected = one.run();
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    Problem<TypeParam> many(2100, 1100, gapped(12, 3));
    const auto s = many.run(SearchOutcome::settled, pool);
    EXPECT_TRUE(same(many.state, one.state)) << threads;
    EXPECT_EQ(s.norm_squared(), expected.norm_squared());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(s.sigma()[i], expected.sigma()[i]);
  }
}

// Another shape under the same name: the old vectors do not fit and are not used.
TYPED_TEST(SearchTest, AStateOfAnotherShapeStartsCold) {
  Problem<TypeParam> old(96, 70, gapped(70, 2));
  old.run();
  Problem<TypeParam> p(96, 50, gapped(50, 2));
  p.state = old.state;
  expect_triplets(p.run(), p, 2);
  EXPECT_EQ(p.state.cols, 50);
}

// bfloat16 storage: the search sees exactly the widened matrix.
TEST(Search, ConvertedStorageIsTheWidenedMatrix) {
  Problem<float> p(97, 70, gapped(70, 2));
  std::vector<BFloat16> halves(static_cast<std::size_t>(p.G.size()));
  std::transform(p.G.data(), p.G.data() + p.G.size(), halves.begin(), kernels::to_bfloat16);
  std::transform(halves.begin(), halves.end(), p.G.data(), [](BFloat16 x) { return kernels::to_float(x); });
  const auto expected = p.run();
  SubspaceState state;
  Workspace workspace;
  const AnyMatrix narrow(MatrixView<BFloat16>(halves.data(), 97, 70));
  SubspaceSearch<float> s(97, 70, p.options, RandomStream{7, 8, 0, 0}, state, workspace.basis);
  drive(s, narrow, workspace.pass, serial_executor());
  EXPECT_EQ(s.outcome(), SearchOutcome::settled);
  s.remember();
  EXPECT_TRUE(same(state, p.state));
  EXPECT_EQ(s.sigma()[0], expected.sigma()[0]);
}

// ---- settled is a promise

// What a clip by these triplets leaves above tau, and how far it is from the exact clip, in the units of the promise.
struct Truth {
  double left = 0;   // (sigma_max(G') / tau - 1) / margin
  double error = 0;  // ||G' - C_tau(G)|| / (3 (tolerance ||D|| + margin tau))
};

template <class T>
Truth truth_of(const SubspaceSearch<T>& s, const Problem<T>& p) {
  const Eigen::MatrixXd G = p.G.template cast<double>();
  const Eigen::MatrixXd X = vectors_of(s, p.G.cols(), s.above());
  Eigen::VectorXd weight(s.above());
  for (Index i = 0; i < weight.size(); ++i) weight[i] = 1 - p.options.tau / s.sigma()[i];
  const Eigen::MatrixXd left = G - (G * X) * weight.asDiagonal() * X.transpose();
  const auto removed = testing::removed_by_gram(G, p.options.tau);
  const double allowed = p.options.tolerance * removed.part.norm() + p.options.margin * p.options.tau;
  return {(testing::sigma_max_of(left) / p.options.tau - 1) / p.options.margin,
          (left - (G - removed.part)).norm() / (3 * allowed)};
}

struct Hard {
  const char* name;
  Eigen::VectorXd sigma;
};
std::vector<Hard> hard_spectra(Index r) {
  const auto plateau = [&](std::initializer_list<double> head, double height) {
    Eigen::VectorXd sigma = Eigen::VectorXd::Constant(r, height);
    std::copy(head.begin(), head.end(), sigma.data());
    return sigma;
  };
  const Eigen::ArrayXd at = Eigen::ArrayXd::LinSpaced(r, 0, static_cast<double>(r - 1));
  return {{"plateau a hair below tau", plateau({1.05, 1.05, 1.05}, 0.999)},
          {"plateau below tau", plateau({1.2, 1.1, 1.05}, 0.95)},
          {"plateau far below tau", plateau({2, 1.5, 1.01}, 0.5)},
          {"one above a plateau", plateau({1.02}, 0.98)},
          {"astride tau", plateau({1.004, 1.002, 1.001, 0.9995, 0.999, 0.998}, 0.3)},
          {"plateau above tau", plateau({1.3}, 1.01)},
          {"slow decay", 1.3 * (at * std::log(0.99)).exp().matrix()},
          {"decay", 3 * (at * std::log(0.9)).exp().matrix()},
          {"power", 4 * (at + 1).pow(-0.7).matrix()},
          {"line", Eigen::VectorXd::LinSpaced(r, 1.5, 0)},
          {"spike", plateau({300, 1.1}, 0.7)}};
}

// Cold and warm, on what is hardest: values that nearly reach tau and do not stand out. Whatever it settles on must be
// true; where it does not settle nothing is promised.
TYPED_TEST(SearchTest, SettledIsTrueOnHardSpectra) {
  int settled = 0, total = 0;
  std::string which;
  for (const auto& [m, n] : {std::pair<Index, Index>{120, 80}, {80, 120}, {300, 150}}) {
    for (const Hard& hard : hard_spectra(std::min(m, n))) {
      Problem<TypeParam> p(m, n, hard.sigma);
      p.options.level = p.options.tau * (1 + p.options.margin / 4);
      for (unsigned step = 0; step < 4; ++step) {
        if (step > 1) p.turn(0.1, 40 + step);
        SCOPED_TRACE(::testing::Message() << hard.name << ", " << m << " x " << n << ", step " << step);
        auto s = p.search();
        drive(s, p.matrix(), p.workspace.pass, serial_executor());
        s.remember();
        ++total;
        if (!s.settled() || s.judgement().wide_range) continue;
        ++settled;
        EXPECT_FALSE(s.judgement().hidden);
        which += std::string(" ") + hard.name;
        const double rounding = 64 * kEpsilonOf<TypeParam> * p.sigma[0];
        const Truth truth = truth_of(s, p);
        EXPECT_LE(truth.left, 1 + rounding / p.options.margin);
        EXPECT_LE(truth.error, 1 + rounding * std::sqrt(static_cast<double>(n)) / p.options.margin);
        EXPECT_GE(s.unseen().bound,
                  s.found() < p.sigma.size() ? p.sigma[s.found()] * (1 - 64 * kEpsilonOf<TypeParam>) : 0)
            << "no basis of that width leaves less";
      }
    }
  }
  EXPECT_GT(8 * settled, total) << which << ": a search that never settles proves nothing";
}

// Three values over a plateau that nearly reaches tau. Few passes can tell that nothing above tau is missed; who says
// so must have found all three.
TYPED_TEST(SearchTest, APlateauAtTauIsSettledOnlyWhereItIsTrue) {
  Eigen::VectorXd sigma = Eigen::VectorXd::Constant(200, 0.999);
  sigma.head(3).setConstant(1.05);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Problem<TypeParam> p(400, 200, sigma);
    p.step = 100 * seed;
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", step " << step);
      auto s = p.search();
      drive(s, p.matrix(), p.workspace.pass, serial_executor());
      s.remember();
      EXPECT_LE(s.passes(), 8);
      EXPECT_LE(s.found(), p.options.max_columns);
      if (!s.settled()) continue;
      EXPECT_FALSE(s.judgement().hidden) << "settled after " << s.passes()
                                         << " passes while something may be hidden: " << s.unseen().bound;
      EXPECT_EQ(s.above(), 3);
      const Truth truth = truth_of(s, p);
      EXPECT_LE(truth.left, 1);
      EXPECT_LE(truth.error, 1);
    }
  }
}

// Values between tau and tau (1 + margin), as many as there are directions: each may stay, all together may not be
// further from the exact clip than is promised.
TYPED_TEST(SearchTest, ManyValuesWithinTheMarginKeepThePromise) {
  for (const Index r : {8, 80, 150}) {
    SCOPED_TRACE(r);
    Problem<TypeParam> p(2 * r, r, Eigen::VectorXd::Constant(r, 1.0004));
    p.options.level = p.options.tau * (1 + p.options.margin / 4);
    auto s = p.search();
    drive(s, p.matrix(), p.workspace.pass, serial_executor());
    if (!s.settled()) continue;
    const Truth truth = truth_of(s, p);
    EXPECT_LE(truth.left, 1 + 64 * kEpsilonOf<TypeParam> / p.options.margin);
    EXPECT_LE(truth.error, 1 + 64 * kEpsilonOf<TypeParam> * std::sqrt(static_cast<double>(r)) / p.options.margin);
  }
}

// What a cold pass leaves unseen, against H = (I - Q Q^T) G with Q from the very columns the library draws.
TYPED_TEST(SearchTest, TheUnseenIsBounded) {
  int exact = 0;
  for (const Hard& hard : hard_spectra(80)) {
    SCOPED_TRACE(hard.name);
    Problem<TypeParam> p(120, 80, hard.sigma);
    p.options.max_passes = 1;
    auto s = p.search();
    drive(s, p.matrix(), p.workspace.pass, serial_executor());
    const Eigen::MatrixXd G = p.G.template cast<double>();
    Eigen::MatrixXd Omega(80, kFirstColumns);
    for (std::int64_t i = 0; i < kFirstColumns; ++i) {
      std::vector<double> column(80);
      fill_uniform(RandomStream{7, 8, 0, 0}, static_cast<std::uint32_t>(i), column.data(), 80);
      Omega.col(i) = Eigen::Map<Eigen::VectorXd>(column.data(), 80);
    }
    const Eigen::MatrixXd Q = testing::orthonormal_basis(G * Omega);
    const Eigen::MatrixXd H = G - Q * (Q.transpose() * G);
    EXPECT_GE(s.unseen().bound, testing::sigma_max_of(H));
    EXPECT_LE(s.unseen().typical, s.unseen().bound);
    EXPECT_LE(s.unseen().bound, s.energy_left());
    EXPECT_GE(s.energy_left() * s.energy_left() - H.squaredNorm(), -64 * kEpsilonOf<TypeParam> * G.squaredNorm());
    // All of W counts when its columns are far from dependent; then nothing but rounding is added.
    if (testing::singular_values(G * Omega)[kFirstColumns - 1] < 0.1 * (G * Omega).norm()) continue;
    ++exact;
    EXPECT_LE(s.energy_left(), H.norm() + std::sqrt(32 * kEpsilonOf<TypeParam>) * G.norm());
  }
  EXPECT_GE(exact, 3);
}

// ---- rows over several holders

template <class T>
struct Shard {
  AnyMatrix rows;
  SubspaceState state;
  Workspace workspace;
  std::unique_ptr<SubspaceSearch<T>> search;
};

// Cuts the rows of p at `cuts` and steps all parts with the sums of their passes.
template <class T>
struct Sharded {
  Problem<T>& p;
  std::vector<Shard<T>> shards;

  Sharded(Problem<T>& problem, const std::vector<double>& cuts) : p(problem) {
    Index first = 0;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      const Index end = i < cuts.size() ? static_cast<Index>(cuts[i] * static_cast<double>(p.G.rows())) : p.G.rows();
      Shard<T> shard;
      const Index rows = end - first;
      shard.rows = {rows > 0 ? p.G.data() + first * p.G.cols() : nullptr, kScalarTypeOf<T>, rows, p.G.cols(),
                    p.G.cols()};
      shards.push_back(std::move(shard));
      first = end;
    }
  }
  void add_up(std::vector<PassResult<T>>& results) const {
    const std::int64_t entries = results[0].k * kernels::padded(p.G.cols());
    for (std::size_t i = 1; i < results.size(); ++i) {
      for (std::int64_t j = 0; j < entries; ++j) results[0].Zt[j] += results[i].Zt[j];
      for (std::int64_t j = 0; j < results[0].count(); ++j) results[0].sums[j] += results[i].sums[j];
    }
    for (std::size_t i = 1; i < results.size(); ++i) {
      std::copy_n(results[0].Zt, entries, results[i].Zt);
      std::copy_n(results[0].sums, results[0].count(), results[i].sums);
    }
  }
  void step(std::uint64_t number) {
    for (Shard<T>& shard : shards) {
      shard.search = std::make_unique<SubspaceSearch<T>>(
          p.G.rows(), p.G.cols(), p.options, RandomStream{7, 8, number, 0}, shard.state, shard.workspace.basis);
    }
    for (bool more = true; more;) {
      std::vector<PassResult<T>> results;
      for (Shard<T>& shard : shards) {
        SubspaceSearch<T>& s = *shard.search;
        ASSERT_EQ(s.columns().k, shards[0].search->columns().k);
        run_pass(shard.rows, s.columns(), s.result(), shard.workspace.pass, serial_executor());
        results.push_back(s.result());
      }
      add_up(results);
      more = shards[0].search->take();
      for (std::size_t i = 1; i < shards.size(); ++i) ASSERT_EQ(shards[i].search->take(), more) << "shard " << i;
    }
    for (Shard<T>& shard : shards) {
      if (shard.search->outcome() == SearchOutcome::out_of_range) continue;
      shard.search->finish();
      shard.search->remember();
    }
  }
};

const std::vector<std::vector<double>> kCuts = {{}, {0.3}, {0.0}, {0.1, 0.15}, {0.5, 0.5}, {0.02, 0.4, 0.4, 0.9}};

// Equal bits on every holder, and up to rounding of the sums what one who holds all rows would find.
TYPED_TEST(SearchTest, HoldersOfRowsDecideAlike) {
  using T = TypeParam;
  const std::vector<Eigen::VectorXd> spectra = {gapped(70, 3), gapped(70, 12),
                                                standing_out({0.9, 0.7, 0.5, 0.3}, 0.05)};
  for (const std::vector<double>& cuts : kCuts) {
    for (std::size_t spectrum = 0; spectrum < spectra.size(); ++spectrum) {
      SCOPED_TRACE(::testing::Message() << cuts.size() + 1 << " shards, spectrum " << spectrum);
      Problem<T> whole(96, 70, spectra[spectrum]);
      Problem<T> parts(96, 70, spectra[spectrum]);
      Sharded<T> sharded(parts, cuts);
      for (std::uint64_t step = 0; step < 3; ++step) {
        SCOPED_TRACE(::testing::Message() << "step " << step);
        if (step > 0) {
          whole.turn(0.2, 50 + static_cast<unsigned>(step));
          parts.G = whole.G;  // in place: the shards' views stay
        }
        const auto expected = whole.run();
        ASSERT_NO_FATAL_FAILURE(sharded.step(step));
        const SubspaceSearch<T>& first = *sharded.shards[0].search;
        EXPECT_EQ(first.outcome(), expected.outcome());
        EXPECT_EQ(first.passes(), expected.passes());
        // A row at the edge of rounding may be left out by one and not by the other.
        EXPECT_NEAR(static_cast<double>(first.found()), static_cast<double>(expected.found()), kFreshColumns);
        EXPECT_EQ(first.above(), expected.above());
        EXPECT_EQ(sharded.shards[0].state.columns, whole.state.columns);
        const double rounding = 64 * kEpsilonOf<T> * whole.sigma[0];
        EXPECT_NEAR(first.norm_squared(), expected.norm_squared(), rounding * expected.norm_squared());
        EXPECT_NEAR(first.sigma_max(), expected.sigma_max(), 4 * rounding);
        for (std::int64_t i = 0; i < expected.above(); ++i)
          EXPECT_NEAR(first.sigma()[i], expected.sigma()[i], 4 * rounding);
        const Eigen::MatrixXd a = vectors_of(first, 70, expected.above());
        const Eigen::MatrixXd b = vectors_of(expected, 70, expected.above());
        EXPECT_LE((a * a.transpose() - b * b.transpose()).norm(), 64 * rounding) << "the same span is lowered";
        for (std::size_t i = 1; i < sharded.shards.size(); ++i) {
          EXPECT_TRUE(same(sharded.shards[i].state, sharded.shards[0].state)) << "shard " << i;
          EXPECT_TRUE(std::equal(first.sigma(), first.sigma() + first.found(), sharded.shards[i].search->sigma()));
        }
      }
    }
  }
}

// One NaN at one holder: all hear of it, none keeps anything of the step.
TYPED_TEST(SearchTest, HoldersOfRowsAllHearOfANaN) {
  for (const std::vector<double>& cuts : kCuts) {
    for (const Index row : {Index{0}, Index{40}, Index{95}}) {
      SCOPED_TRACE(::testing::Message() << cuts.size() + 1 << " shards, row " << row);
      Problem<TypeParam> p(96, 70, gapped(70, 2));
      Sharded<TypeParam> sharded(p, cuts);
      ASSERT_NO_FATAL_FAILURE(sharded.step(0));
      const SubspaceState before = sharded.shards[0].state;
      p.G(row, 13) = std::numeric_limits<TypeParam>::quiet_NaN();
      ASSERT_NO_FATAL_FAILURE(sharded.step(1));
      for (const auto& shard : sharded.shards) {
        EXPECT_EQ(shard.search->outcome(), SearchOutcome::out_of_range);
        EXPECT_TRUE(same(shard.state, before));
      }
    }
  }
}

// A matrix that is out of range as a whole need not be so in any part, and the other way round.
TYPED_TEST(SearchTest, TheRangeIsThatOfTheWhole) {
  const double scale = sizeof(TypeParam) == 4 ? 1.75e14 : 1.75e99;
  Problem<TypeParam> p(96, 70, gapped(70, 2) * scale);
  p.options.tau = p.options.level = scale;
  Sharded<TypeParam> sharded(p, {0.5});
  ASSERT_NO_FATAL_FAILURE(sharded.step(0));
  const double norm_squared = p.G.template cast<double>().squaredNorm();
  const bool beyond = norm_squared >= (sizeof(TypeParam) == 4 ? 1e30 : 1e200);
  ASSERT_TRUE(beyond) << norm_squared;
  for (const auto& shard : sharded.shards) {
    EXPECT_EQ(shard.search->outcome(), SearchOutcome::out_of_range);
    const AnyMatrix half = shard.rows;
    SubspaceState state;
    Workspace workspace;
    SubspaceSearch<TypeParam> alone(half.rows, half.cols, p.options, RandomStream{7, 8, 0, 0}, state, workspace.basis);
    drive(alone, half, workspace.pass, serial_executor());
    EXPECT_NE(alone.outcome(), SearchOutcome::out_of_range) << "the case must be one that only the sum shows";
  }
}

// ---- memory

// Later steps of a shape find their memory, and so does a basis that grows.
TYPED_TEST(SearchTest, MemoryIsBookedOnce) {
  Problem<TypeParam> p(96, 70, gapped(70, 24));
  p.options.max_passes = 12;
  auto s = p.search();
  const std::size_t first = p.workspace.basis.bytes();
  EXPECT_GT(first, 0U);
  drive(s, p.matrix(), p.workspace.pass, serial_executor());
  s.remember();
  EXPECT_TRUE(s.settled());
  expect_triplets(s, p, 24);
  for (int step = 0; step < 3; ++step) p.run();
  EXPECT_EQ(p.workspace.basis.bytes(), first);
}

// Bits depend neither on how much memory there was from the start nor on what it held.
TYPED_TEST(SearchTest, MemoryDoesNotShowInTheResult) {
  Problem<TypeParam> tight(96, 70, gapped(70, 24));
  tight.options.max_passes = 12;
  const auto expected = tight.run();
  for (const std::size_t bytes : {tight.workspace.basis.bytes(), 4 * tight.workspace.basis.bytes()}) {
    for (const int filling : {0, 0x3f, 0xff}) {
      SCOPED_TRACE(::testing::Message() << bytes << " bytes of " << filling);
      Problem<TypeParam> roomy(96, 70, gapped(70, 24));
      roomy.options.max_passes = 12;
      roomy.workspace.basis.reserve(bytes);
      std::fill_n(roomy.workspace.basis.template take<unsigned char>(0), bytes, static_cast<unsigned char>(filling));
      const auto other = roomy.run();
      EXPECT_EQ(roomy.widths, tight.widths);
      EXPECT_EQ(other.above(), expected.above());
      EXPECT_TRUE(same(roomy.state, tight.state));
    }
  }
}

TYPED_TEST(SearchTest, TheSmallestShapes) {
  for (const auto& [m, n] :
       {std::pair<Index, Index>{1, 1}, {1, 2}, {2, 1}, {1, 40}, {40, 1}, {3, 2}, {5, 5}, {7, 40}, {40, 7}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n);
    const Index r = std::min(m, n);
    Problem<TypeParam> p(m, n, Eigen::VectorXd::LinSpaced(r, 3, 0.5));
    const auto above = (p.sigma.array() > 1).count();
    for (int step = 0; step < 3; ++step) {
      const auto s = p.run();
      EXPECT_TRUE(s.complete());
      expect_triplets(s, p, above);
    }
  }
}

// Rank far below the side: nothing is left unseen, though the basis never spans everything.
TYPED_TEST(SearchTest, LowRankIsSettled) {
  for (const auto& [m, n] : {std::pair<Index, Index>{96, 70}, {10, 6}, {96, 5}, {5, 96}}) {
    for (const Index rank : {1, 2, 4}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << ", rank " << rank);
      Eigen::VectorXd sigma = Eigen::VectorXd::LinSpaced(rank, 3, 2);
      Problem<TypeParam> p(m, n, sigma);
      for (int step = 0; step < 3; ++step) {
        const auto s = p.run();
        expect_triplets(s, p, rank);
        EXPECT_TRUE(std::isfinite(s.unseen().bound));
        EXPECT_LE(s.unseen().bound, 64 * std::sqrt(kEpsilonOf<TypeParam>) * p.sigma[0]);
      }
    }
  }
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// The search on matrices of known spectrum: what it finds, how wide it grows and shrinks, how often it reads, and what
// it leaves alone.
#include "subspace/search.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "kernels/scalar_convert.h"
#include "support/factorizations.h"

namespace spectralclip {
namespace {

using Eigen::Index;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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
struct Problem {
  Eigen::VectorXd sigma;
  RowMajor V;  // n x r
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> G;
  SearchOptions options;
  SubspaceState state;
  Workspace workspace;
  std::uint64_t step = 0;

  Problem(Index m, Index n, const Eigen::VectorXd& sigma_)
      : sigma(sigma_),
        V(orthonormal(n, sigma_.size(), 2)),
        G((orthonormal(m, sigma_.size(), 1) * sigma_.asDiagonal() * V.transpose()).template cast<T>()) {
    options.tau = 1;
    options.level = 1;
  }
  // The same values along right vectors turned by about `tangent`.
  void turn(double tangent, unsigned seed) {
    const RowMajor towards = orthonormal(V.rows(), V.cols(), seed);
    const Eigen::MatrixXd turned = V + tangent * towards;
    V = spectralclip::testing::orthonormal_basis(turned);
    G = (orthonormal(G.rows(), sigma.size(), 1) * sigma.asDiagonal() * V.transpose()).template cast<T>();
  }
  [[nodiscard]] AnyMatrix matrix() { return MatrixView<T>(G.data(), G.rows(), G.cols()); }
  SubspaceSearch<T> search(Executor& executor = serial_executor()) {
    return {matrix(), options, RandomStream{7, 8, step++, 0}, state, workspace, executor};
  }
  // One step that must come to `expected`, remembered.
  SubspaceSearch<T> run(SearchOutcome expected = SearchOutcome::settled) {
    SubspaceSearch<T> s = search();
    EXPECT_EQ(s.run(), expected);
    s.remember();
    return s;
  }
};

// Ritz values err by the square of the vectors' error; the search asks for vectors within `tolerance`.
template <class T>
void expect_triplets(const SubspaceSearch<T>& s, const Problem<T>& p, std::int64_t count) {
  ASSERT_EQ(s.above(), count);
  const double rounding =
      64 * std::sqrt(static_cast<double>(p.G.cols())) * static_cast<double>(std::numeric_limits<T>::epsilon());
  const double limit = p.options.tolerance + rounding;
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_LE(std::abs(s.sigma()[i] - p.sigma[i]), limit * p.sigma[0]) << i;
    const T* v = s.vectors() + i * kernels::padded(p.G.cols());
    double along = 0;
    for (Index j = 0; j < p.G.cols(); ++j) along += static_cast<double>(v[j]) * p.V(j, i);
    EXPECT_LE(std::abs(std::abs(along) - 1), limit) << i;
  }
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
    EXPECT_EQ(s.columns(), kFirstColumns);
    EXPECT_NEAR(s.norm_squared(), p.sigma.squaredNorm(),
                64 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon()) * p.sigma.squaredNorm());
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

// Directions that were held but have turned: a second pass, without fresh columns, sharpens them.
TYPED_TEST(SearchTest, TurnedDirectionsAreSharpenedByANarrowPass) {
  Problem<TypeParam> p(96, 70, standing_out({3.0, 2.5, 0.7, 0.5}, 0.25));
  p.run();
  for (unsigned step = 0; step < 3; ++step) {
    p.turn(0.3, 10 + step);
    const auto s = p.run();
    EXPECT_GE(s.passes(), 2);
    EXPECT_LT(s.found(), s.columns());
    EXPECT_EQ(s.columns(), kFirstColumns);
    EXPECT_LE(s.left_out(), 0.5 + 0.01);
    expect_triplets(s, p, 2);
    EXPECT_EQ(p.state.kept, kFirstColumns - kFreshColumns) << "vectors below level are not forgotten";
  }
}

// One pass sees the value of a turned direction short; most of that is put right.
TYPED_TEST(SearchTest, SigmaMaxIsCorrectedForTheAngle) {
  Problem<TypeParam> p(96, 70, standing_out({0.9, 0.6, 0.5, 0.4}, 0.35));
  p.run();
  double raw = 0, corrected = 0;
  for (unsigned step = 0; step < 8; ++step) {
    p.turn(0.3, 20 + step);
    const auto s = p.run();
    raw += std::abs(s.sigma()[0] - p.sigma[0]);
    corrected += std::abs(s.sigma_max() - p.sigma[0]);
  }
  EXPECT_GT(raw, 0.002 * 8 * p.sigma[0]) << "the case must have something to correct";
  EXPECT_LT(corrected, raw / 2);
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
  const auto s = p.run();
  EXPECT_EQ(s.above(), 0);
  EXPECT_NEAR(s.sigma()[0], p.sigma[0], 1e-3 * p.sigma[0]);  // kColdSettled
}

TYPED_TEST(SearchTest, SketchedReadsExactlyAsOftenAsAsked) {
  for (const int power_passes : {0, 1, 2, 5}) {
    Problem<TypeParam> p(96, 70, gapped(70, 3));
    p.options.power_passes = power_passes;
    p.options.rank = 10;
    p.options.oversampling = 5;
    const auto s = p.run();
    EXPECT_EQ(s.passes(), 1 + power_passes);
    EXPECT_EQ(s.columns(), 16) << "rank + oversampling, made even";
    EXPECT_EQ(s.above(), 3);
  }
}

TYPED_TEST(SearchTest, MaxPassesIsALimit) {
  Problem<TypeParam> p(96, 70, Eigen::VectorXd::LinSpaced(70, 2, 0.9));  // no gap to converge by
  p.options.rank = 3;
  p.options.tolerance = 1e-12;
  p.options.max_passes = 3;
  EXPECT_EQ(p.run(SearchOutcome::exhausted).passes(), 3);
}

TYPED_TEST(SearchTest, RankGrowsUntilEverythingAboveIsFound) {
  Problem<TypeParam> p(96, 70, gapped(70, 10));
  const auto s = p.run();
  expect_triplets(s, p, 10);
  EXPECT_EQ(s.columns(), 16);
  EXPECT_EQ(p.state.columns, 16);
  EXPECT_EQ(p.run().columns(), 16) << "the width is remembered";
}

TYPED_TEST(SearchTest, GrowthEndsAtMaxColumns) {
  Problem<TypeParam> p(96, 70, gapped(70, 40));
  p.options.max_columns = 16;
  const auto s = p.run(SearchOutcome::exhausted);
  EXPECT_EQ(s.columns(), 16);
  EXPECT_GE(s.above(), 12);
  EXPECT_LE(s.above(), 16);
}

TYPED_TEST(SearchTest, GrowthCanReachTheWholeMatrix) {
  Problem<TypeParam> p(20, 50, Eigen::VectorXd::LinSpaced(20, 9, 2));
  const auto s = p.run();
  EXPECT_TRUE(s.complete());
  expect_triplets(s, p, 20);
}

TYPED_TEST(SearchTest, AFixedRankDoesNotGrow) {
  Problem<TypeParam> p(96, 70, gapped(70, 5));
  p.options.rank = 3;
  const auto s = p.run(SearchOutcome::exhausted);
  EXPECT_EQ(s.above(), 3);
  EXPECT_EQ(s.columns(), 8) << "rank + fresh columns, made even";
  EXPECT_EQ(p.state.kept, 3);
}

// Grown for heavy steps, given back by halves after sixteen calm ones each.
TYPED_TEST(SearchTest, WidthShrinksAfterCalmSteps) {
  Problem<TypeParam> heavy(96, 70, gapped(70, 20));
  heavy.run();
  ASSERT_EQ(heavy.state.columns, 32);
  Problem<TypeParam> calm(96, 70, gapped(70, 1));
  calm.state = heavy.state;
  for (const std::int64_t width : {std::int64_t{32}, std::int64_t{16}, kFirstColumns}) {
    for (int step = 0; step < 16; ++step) EXPECT_EQ(calm.run().columns(), width) << step;
  }
  for (int step = 0; step < 20; ++step) EXPECT_EQ(calm.run().columns(), kCalmColumns) << "never below that";
  Problem<TypeParam> busier(96, 70, gapped(70, 2));
  busier.state = calm.state;
  EXPECT_EQ(busier.run().columns(), kFirstColumns) << "two above fill the two kept: back to the first width";
}

TYPED_TEST(SearchTest, AHeavyStepStartsTheCalmAgain) {
  Problem<TypeParam> p(96, 70, gapped(70, 1));
  p.run();
  p.state.columns = 16;
  p.state.calm_steps = 0;
  for (int step = 0; step < 15; ++step) p.run();
  EXPECT_EQ(p.state.calm_steps, 15);
  Problem<TypeParam> heavy(96, 70, gapped(70, 6));
  heavy.state = p.state;
  heavy.run();
  EXPECT_EQ(heavy.state.calm_steps, 0);
  EXPECT_EQ(heavy.state.columns, 16);
}

TYPED_TEST(SearchTest, NotFiniteLeavesTheStateAsItWas) {
  for (const auto bad : {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity()}) {
    for (const Index at : {Index{0}, Index{3000}, Index{96 * 70 - 1}}) {
      Problem<TypeParam> p(96, 70, gapped(70, 2));
      p.run();
      const SubspaceState before = p.state;
      p.G.data()[at] = bad;
      auto s = p.search();
      EXPECT_EQ(s.run(), SearchOutcome::out_of_range);
      EXPECT_TRUE(same(p.state, before));
    }
  }
}

TYPED_TEST(SearchTest, ZeroAndExtremeMatricesAreOutOfRange) {
  for (const double scale : {0.0, sizeof(TypeParam) == 4 ? 1e-20 : 1e-150, sizeof(TypeParam) == 4 ? 1e18 : 1e150}) {
    Problem<TypeParam> p(96, 70, gapped(70, 2));
    p.G *= static_cast<TypeParam>(scale);
    auto s = p.search();
    EXPECT_EQ(s.run(), SearchOutcome::out_of_range) << scale;
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
    auto s = many.search(pool);
    EXPECT_EQ(s.run(), SearchOutcome::settled);
    s.remember();
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
  SubspaceSearch<float> s(narrow, p.options, RandomStream{7, 8, 0, 0}, state, workspace, serial_executor());
  EXPECT_EQ(s.run(), SearchOutcome::settled);
  s.remember();
  EXPECT_TRUE(same(state, p.state));
  EXPECT_EQ(s.sigma()[0], expected.sigma()[0]);
}

}  // namespace
}  // namespace spectralclip

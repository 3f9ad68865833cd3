// SPDX-License-Identifier: Apache-2.0
// What a clip says it came to, on matrices made to come to it: `ok` where it is true, else the reason why it is not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "clip/cost.h"
#include "spectralclip/clip.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"

namespace spectralclip {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::StoredMatrix;

constexpr ScalarType kStatusTypes[] = {ScalarType::float32, ScalarType::float64};
constexpr double kTau = 1;
constexpr Index kRows = 400, kCols = 200;  // gram costs several times a search here

ClipOptions tracked(Exhausted exhausted) {
  ClipOptions options;
  options.method = Method::tracked;
  options.exhausted = exhausted;
  return options;
}

VectorXd plateau(Index r, Index above, double high, double height) {
  VectorXd sigma = VectorXd::Constant(r, height);
  sigma.head(above).setConstant(high);
  return sigma;
}
VectorXd standing_out(Index r) {
  VectorXd sigma = VectorXd::LinSpaced(r, 0.1, 0.01);
  sigma.head(4) << 3, 2, 0.7, 0.5;
  return sigma;
}

// Nothing above tau (1 + margin), and close to the exact clip.
void expect_promise(const MatrixXd& before, const StoredMatrix& after, const ClipReport& report,
                    const ClipOptions& options) {
  const auto removed = testing::removed_by_gram(before, kTau);
  const MatrixXd left = after.values();
  EXPECT_LE(testing::sigma_max_of(left), kTau * (1 + options.margin) * (1 + 1e-5));
  EXPECT_LE(testing::sigma_max_beside(left, report.sigma_bound), report.sigma_bound);
  EXPECT_LE((left - (before - removed.part)).norm(),
            3 * (options.tolerance * removed.part.norm() + options.margin * kTau) + 1e-6 * before.norm());
}

TEST(Status, TheShapesOfTheseTestsAreSearched) {
  StoredMatrix G(ScalarType::float32, MatrixXd::Zero(kRows, kCols));
  EXPECT_EQ(choose_method(ClipOptions{}, G.view(), SubspaceState{}), Method::tracked);
}

TEST(Status, OkWhereDirectionsStandOut) {
  for (const ScalarType type : kStatusTypes) {
    for (const Exhausted exhausted : {Exhausted::go_exact, Exhausted::report, Exhausted::automatic}) {
      StoredMatrix G(type, testing::with_spectrum(kRows, kCols, standing_out(kCols)));
      const MatrixXd before = G.values();
      const ClipReport report = clip_singular_values(G.view(), kTau, tracked(exhausted));
      EXPECT_EQ(report.status, ClipStatus::ok);
      EXPECT_EQ(report.method, Method::tracked);
      EXPECT_EQ(report.clipped, 2);
      EXPECT_LE(report.sigma_bound, kTau * 1.002) << "worst cases added up: a little more than what is promised";
      expect_promise(before, G, report, {});
      EXPECT_TRUE(G.padding_intact());
    }
  }
}

// A plateau that nearly reaches tau: two passes cannot tell what it hides.
TEST(Status, NotConvergedWhereTheBudgetIsTooSmall) {
  for (const ScalarType type : kStatusTypes) {
    StoredMatrix G(type, testing::with_spectrum(kRows, kCols, plateau(kCols, 3, 1.05, 0.999)));
    const auto stored = G.bytes();
    ClipOptions options = tracked(Exhausted::report);
    options.max_passes = 2;
    const ClipReport report = clip_singular_values(G.view(), kTau, options);
    EXPECT_EQ(report.status, ClipStatus::not_converged) << to_string(report.status);
    EXPECT_EQ(report.method, Method::tracked);
    EXPECT_EQ(report.passes, 2);
    EXPECT_GT(report.clipped, 0) << "what was found is lowered";
    EXPECT_NE(G.bytes(), stored);
    EXPECT_LE(testing::sigma_max_beside(G.values(), report.sigma_bound), report.sigma_bound)
        << "the bound holds all the same";
    EXPECT_GT(report.sigma_bound, kTau * (1 + options.margin));
  }
}

// With the usual budget it may be sure; where it says so it is right.
TEST(Status, OkOnAPlateauIsTrue) {
  for (const ScalarType type : kStatusTypes) {
    for (const double height : {0.9, 0.99, 0.999, 0.9995}) {
      for (const std::uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << to_string(type) << ", height " << height << ", seed " << seed);
        StoredMatrix G(type, testing::with_spectrum(kRows, kCols, plateau(kCols, 3, 1.05, height), seed));
        const MatrixXd before = G.values();
        ClipOptions options = tracked(Exhausted::report);
        options.seed = seed;
        const ClipReport report = clip_singular_values(G.view(), kTau, options);
        EXPECT_LE(testing::sigma_max_beside(G.values(), report.sigma_bound), report.sigma_bound);
        EXPECT_LE(report.passes, options.max_passes);
        if (report.status == ClipStatus::ok) expect_promise(before, G, report, options);
      }
    }
  }
}

// Clippers bound the price of a step, stateless calls do not leave a clip half done.
TEST(Status, AutoReportsInAClipperAndGoesExactWithoutOne) {
  const MatrixXd values = testing::with_spectrum(kRows, kCols, plateau(kCols, 3, 1.05, 0.999));
  ClipOptions options = tracked(Exhausted::automatic);
  options.max_passes = 2;
  StoredMatrix alone(ScalarType::float32, values);
  const MatrixXd before = alone.values();
  const ClipReport exact = clip_singular_values(alone.view(), kTau, options);
  EXPECT_EQ(exact.status, ClipStatus::ok);
  EXPECT_EQ(exact.clipped, 3);
  EXPECT_GT(exact.passes, 2) << "it reads on where a clipper has to stop";
  expect_promise(before, alone, exact, options);
  StoredMatrix kept(ScalarType::float32, values);
  MatrixClipper clipper(kRows, kCols, options);
  const ClipReport unsure = clipper.clip(kept.view(), kTau);
  EXPECT_EQ(unsure.status, ClipStatus::not_converged);
  EXPECT_TRUE(observed(unsure.status));
  EXPECT_EQ(unsure.method, Method::tracked);
  EXPECT_EQ(clipper.step(), 1);
}

// Values that fall slowly through tau: nothing stands out, and a search that costs as much as `gram` ends in it.
TEST(Status, GoExactEndsInGramWhereSearchingIsDearer) {
  StoredMatrix G(ScalarType::float32, testing::with_spectrum(kRows, kCols, VectorXd::LinSpaced(kCols, 1.5, 0.5)));
  const MatrixXd before = G.values();
  const ClipReport report = clip_singular_values(G.view(), kTau, tracked(Exhausted::go_exact));
  EXPECT_EQ(report.status, ClipStatus::ok);
  EXPECT_EQ(report.method, Method::gram);
  EXPECT_EQ(report.clipped, kCols / 2);
  EXPECT_GT(report.passes, 2) << "those of the search count";
  expect_promise(before, G, report, {});
}

TEST(Status, RankExhaustedWhereMoreIsAboveThanTheRankAllows) {
  VectorXd sigma = standing_out(kCols);
  sigma.head(6) << 6, 5, 4, 3, 2, 1.5;
  for (const Method method : {Method::tracked, Method::sketched}) {
    for (const std::int64_t rank : {2, 5, 6, 7}) {
      StoredMatrix G(ScalarType::float32, testing::with_spectrum(kRows, kCols, sigma));
      const MatrixXd before = G.values();
      ClipOptions options = tracked(Exhausted::go_exact);  // a rank that is given is not exceeded all the same
      options.method = method;
      options.rank = rank;
      options.power_passes = 6;
      const ClipReport report = clip_singular_values(G.view(), kTau, options);
      SCOPED_TRACE(std::string(to_string(method)) + " rank " + std::to_string(rank));
      EXPECT_EQ(report.method, method);
      EXPECT_EQ(report.clipped, std::min<std::int64_t>(rank, 6));
      EXPECT_EQ(report.status, rank < 6 ? ClipStatus::rank_exhausted : ClipStatus::ok);
      EXPECT_LE(testing::sigma_max_beside(G.values(), report.sigma_bound), report.sigma_bound);
      if (report.status == ClipStatus::ok) expect_promise(before, G, report, options);
      if (rank < 6) {
        EXPECT_NEAR(testing::sigma_max_of(G.values()), sigma[rank], 1e-3);
      }
    }
  }
}

TEST(Status, RankExhaustedWhereTheColumnsDoNotSuffice) {
  StoredMatrix G(ScalarType::float32, testing::with_spectrum(kRows, kCols, VectorXd::LinSpaced(kCols, 9, 2)));
  ClipOptions options = tracked(Exhausted::report);
  options.max_columns = 16;
  const ClipReport report = clip_singular_values(G.view(), kTau, options);
  EXPECT_EQ(report.status, ClipStatus::rank_exhausted);
  EXPECT_LE(report.columns, 16);
  EXPECT_GT(report.clipped, 0);
}

TEST(Status, NotFiniteIsNotOutOfRange) {
  for (const Index at : {Index{0}, Index{kRows * kCols - 1}}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      MatrixXd values = testing::with_spectrum(kRows, kCols, standing_out(kCols));
      values.data()[at] = bad;
      StoredMatrix G(ScalarType::float32, values);
      const auto before = G.bytes();
      for (const Exhausted exhausted : {Exhausted::go_exact, Exhausted::report}) {
        EXPECT_EQ(clip_singular_values(G.view(), kTau, tracked(exhausted)).status, ClipStatus::not_finite);
        EXPECT_EQ(G.bytes(), before);
      }
    }
  }
}

// Squares leave the range of float32 (and of float64) long before the values do: such a matrix is clipped by gram.
TEST(Status, SquaresOutOfRangeAreClippedAllTheSame) {
  for (const ScalarType type : kStatusTypes) {
    const bool wide = type == ScalarType::float64;
    for (const double size : {wide ? 1e200 : 1e25, wide ? 1e-200 : 1e-25}) {
      StoredMatrix G(type, size * testing::with_spectrum(kRows, kCols, standing_out(kCols)));
      for (const Exhausted exhausted : {Exhausted::report, Exhausted::go_exact}) {
        const MatrixXd before = G.values() / size;
        StoredMatrix copy(type, G.values());
        const ClipReport report = clip_singular_values(copy.view(), size * kTau, tracked(exhausted));
        EXPECT_EQ(report.status, ClipStatus::ok);
        EXPECT_EQ(report.clipped, 2);
        EXPECT_NEAR(report.sigma_max / size, 3, 1e-3);
        EXPECT_LE(testing::sigma_max_of(copy.values() / size), 1.001);
      }
    }
  }
}

// A finite matrix whose norm is beyond the largest double: nothing can be said of it in doubles, nothing is written.
TEST(Status, OutOfRangeLeavesTheMatrixAlone) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{9, 7}, {kRows, kCols}, {1, 40}}) {
    for (const Method method :
         {Method::automatic, Method::tracked, Method::sketched, Method::gram, Method::exact, Method::newton_schulz}) {
      SCOPED_TRACE(std::string(to_string(method)) + " " + std::to_string(rows) + " x " + std::to_string(cols));
      if (rows > 100 && (method == Method::exact || method == Method::newton_schulz)) continue;  // seconds
      StoredMatrix G(ScalarType::float64, MatrixXd::Constant(rows, cols, 1.5e308));
      const auto before = G.bytes();
      ClipOptions options;
      options.method = method;
      if (method == Method::sketched) options.rank = 1;
      const ClipReport report = clip_singular_values(G.view(), 1e300, options);
      EXPECT_EQ(report.status, ClipStatus::out_of_range) << to_string(report.status);
      EXPECT_EQ(report.clipped, 0);
      EXPECT_EQ(G.bytes(), before);
      MatrixClipper clipper(rows, cols, options);
      EXPECT_FALSE(observed(clipper.clip(G.view(), 1e300).status));
      EXPECT_EQ(clipper.step(), 0);
    }
    StoredMatrix G(ScalarType::float64, MatrixXd::Constant(rows, cols, 1.5e308));
    const auto before = G.bytes();
    EXPECT_EQ(clip_norm(G.view(), 1.0).status, ClipStatus::out_of_range);
    EXPECT_EQ(G.bytes(), before);
  }
}

TEST(Status, ZeroIsOk) {
  for (const ScalarType type : kStatusTypes) {
    StoredMatrix G(type, MatrixXd::Zero(kRows, kCols));
    const ClipReport report = clip_singular_values(G.view(), kTau, tracked(Exhausted::report));
    EXPECT_EQ(report.status, ClipStatus::ok);
    EXPECT_EQ(report.clipped, 0);
    EXPECT_EQ(report.sigma_max, 0);
    EXPECT_EQ(report.norm_before, 0);
  }
}

// What would be done is what is done.
TEST(Status, ObserveOnlyComesToTheSame) {
  for (const VectorXd& sigma :
       {standing_out(kCols), plateau(kCols, 3, 1.05, 0.999), VectorXd(VectorXd::LinSpaced(kCols, 9, 2))}) {
    for (const Exhausted exhausted : {Exhausted::go_exact, Exhausted::report}) {
      StoredMatrix G(ScalarType::float32, testing::with_spectrum(kRows, kCols, sigma));
      const auto before = G.bytes();
      ClipOptions options = tracked(exhausted);
      options.observe_only = true;
      const ClipReport would = clip_singular_values(G.view(), kTau, options);
      EXPECT_EQ(G.bytes(), before);
      options.observe_only = false;
      const ClipReport did = clip_singular_values(G.view(), kTau, options);
      EXPECT_EQ(would.status, did.status);
      EXPECT_EQ(would.method, did.method);
      EXPECT_EQ(would.clipped, did.clipped);
      EXPECT_EQ(would.sigma_max, did.sigma_max);
      // Where the search is not sure its values are lower bounds: more is removed than they say.
      EXPECT_NEAR(would.norm_after, did.norm_after, (did.status == ClipStatus::ok ? 1e-4 : 0.03) * did.norm_after);
      EXPECT_GE(would.norm_after, did.norm_after * (1 - 1e-6));
    }
  }
}

// The three numbers belong together, sure or not: removed_energy = 1 - norm_after^2 / norm_before^2.
TEST(Status, RemovedEnergyIsThatOfTheNorms) {
  for (const VectorXd& sigma :
       {standing_out(kCols), plateau(kCols, 3, 1.05, 0.999), VectorXd(VectorXd::LinSpaced(kCols, 9, 2))}) {
    for (const Exhausted exhausted : {Exhausted::go_exact, Exhausted::report}) {
      StoredMatrix G(ScalarType::float32, testing::with_spectrum(kRows, kCols, sigma));
      const double before = G.values().norm();
      const ClipReport report = clip_singular_values(G.view(), kTau, tracked(exhausted));
      const double after = G.values().norm();
      EXPECT_NEAR(report.norm_before, before, 1e-5 * before);
      EXPECT_NEAR(report.norm_after, after, 1e-5 * before);
      EXPECT_NEAR(report.removed_energy, 1 - after * after / (before * before), 1e-4) << to_string(report.status);
    }
  }
}

// The second clip of what was clipped surely finds nothing to do.
TEST(Status, OkTwiceWritesOnce) {
  for (const ScalarType type : kStatusTypes) {
    StoredMatrix G(type, testing::with_spectrum(kRows, kCols, standing_out(kCols)));
    EXPECT_EQ(clip_singular_values(G.view(), kTau, tracked(Exhausted::report)).status, ClipStatus::ok);
    const auto once = G.bytes();
    const ClipReport again = clip_singular_values(G.view(), kTau, tracked(Exhausted::report));
    EXPECT_EQ(again.clipped, 0);
    EXPECT_EQ(G.bytes(), once);
  }
}

TEST(ChooseMethod, GramWhereItIsCheaperAndNothingElseWasAsked) {
  StoredMatrix small(ScalarType::float32, MatrixXd::Zero(20, 16));
  StoredMatrix large(ScalarType::float32, MatrixXd::Zero(kRows, kCols));
  SubspaceState calm, busy;
  busy.clipped_lately = 150;
  ClipOptions options;
  for (const Method method : {Method::automatic, Method::tracked}) {
    options.method = method;
    EXPECT_EQ(choose_method(options, small.view(), calm), Method::gram);
    EXPECT_EQ(choose_method(options, large.view(), calm), Method::tracked);
    EXPECT_EQ(choose_method(options, large.view(), busy), Method::gram) << "passes of that width cost more";
  }
  for (const Method method : {Method::exact, Method::gram, Method::sketched, Method::newton_schulz}) {
    options.method = method;
    EXPECT_EQ(choose_method(options, small.view(), calm), method);
    EXPECT_EQ(choose_method(options, large.view(), busy), method);
  }
  options = {};
  options.rank = 3;
  EXPECT_EQ(choose_method(options, small.view(), calm), Method::tracked) << "a rank is only a search's";
  EXPECT_EQ(choose_method(options, large.view(), busy), Method::tracked);
}

}  // namespace
}  // namespace spectralclip

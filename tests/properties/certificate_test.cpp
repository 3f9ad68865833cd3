// SPDX-License-Identifier: Apache-2.0
// The certificate on ten thousand random cases: nothing left may exceed sigma_bound where it is called certain, and at
// most one in a thousand where it is estimated. Then the flag: a rank that is too small is always reported.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "spectralclip/clip.h"
#include "support/gradient_sequence.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random(seed) {}
  [[nodiscard]] double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  }
  [[nodiscard]] Index pick(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); }
  [[nodiscard]] bool chance(double p) { return uniform(0, 1) < p; }

  std::mt19937_64 random;
};

// r values, largest first: flat, power law, geometric, spiked, stepped or random.
VectorXd random_spectrum(Index r, Dice& dice) {
  const Eigen::ArrayXd place = Eigen::ArrayXd::LinSpaced(r, 1, static_cast<double>(r));
  VectorXd sigma = VectorXd::Ones(r);
  const Index kind = dice.pick(0, 5);
  if (kind == 1) sigma = place.pow(-dice.uniform(0.2, 2));
  if (kind == 2) sigma = (-place * dice.uniform(0.02, 1)).exp();
  if (kind == 3) sigma[0] = std::exp(dice.uniform(0, 6));
  if (kind == 4) sigma.tail(r - dice.pick(1, r)).setConstant(dice.uniform(0, 1));
  if (kind == 5) sigma = VectorXd::NullaryExpr(r, [&] { return dice.uniform(0, 1); });
  std::sort(sigma.begin(), sigma.end(), std::greater<>());
  return sigma;
}

MatrixXd random_matrix(Index rows, Index cols, Dice& dice) {
  return with_spectrum(rows, cols, random_spectrum(std::min(rows, cols), dice), dice.random());
}

struct Tally {
  int certain = 0, estimated = 0;
  int certain_broken = 0, estimated_broken = 0;

  static void describe(const ClipReport& report, const StoredMatrix& after, double left) {
    StoredMatrix copy = after;
    const AnyMatrix G = copy.view();
    std::printf(
        "broken: %s, %s, %lld x %lld %s, sigma_max %.4g tau, clipped %lld, width %lld, passes %d, left %.9g tau, "
        "bound %.9g tau\n",
        to_string(report.method), to_string(report.bound_kind), static_cast<long long>(G.rows),
        static_cast<long long>(G.cols), to_string(G.type), report.sigma_max / report.tau,
        static_cast<long long>(report.clipped), static_cast<long long>(report.columns), report.passes,
        left / report.tau, report.sigma_bound / report.tau);
  }
  void add(const ClipReport& report, const StoredMatrix& after) {
    const double left = sigma_max_beside(after.values(), report.sigma_bound);
    const bool broken = !(left <= report.sigma_bound);
    const bool sure = report.bound_kind == BoundKind::certain;
    if (broken) describe(report, after, left);
    (sure ? certain : estimated) += 1;
    (sure ? certain_broken : estimated_broken) += broken ? 1 : 0;
  }
  void print(const char* what) const {
    std::printf("%s: certain %d (%d broken), estimated %d (%d broken)\n", what, certain, certain_broken, estimated,
                estimated_broken);
  }
  void expect_kept() const {
    EXPECT_EQ(certain_broken, 0);
    EXPECT_LE(1000 * estimated_broken, estimated);
  }
};

ClipOptions random_options(Index rank_limit, Dice& dice) {
  ClipOptions options;
  options.method = dice.chance(0.6) ? Method::tracked : Method::sketched;
  options.exhausted = dice.chance(0.5) ? Exhausted::go_exact : Exhausted::report;
  options.max_columns = dice.chance(0.5) ? 64 : 8;
  options.seed = dice.random();
  if (dice.chance(0.5)) options.rank = dice.pick(1, std::min<Index>(rank_limit, 12));
  return options;
}

// Cold, or warm after up to two steps on a matrix that is the same up to noise (or a new spike).
void one_case(const MatrixXd& G, const ClipOptions& options, double tau, ScalarType type, Tally& tally, Dice& dice) {
  MatrixClipper clipper(G.rows(), G.cols(), options);
  const Index steps = options.method == Method::tracked ? dice.pick(1, 3) : 1;
  for (Index step = 1; step <= steps; ++step) {
    MatrixXd now =
        G + 0.02 * G.norm() / std::sqrt(static_cast<double>(G.size())) * gaussian(G.rows(), G.cols(), dice.random);
    if (step == steps && dice.chance(0.3))
      now += random_rank_one(G.rows(), G.cols(), dice.uniform(0.5, 5) * tau, dice.random);
    StoredMatrix stored(type, now);
    const ClipReport report = clipper.clip(stored.view(), tau);
    if (step == steps) tally.add(report, stored);
  }
}

ScalarType random_type(Dice& dice) {
  const double at = dice.uniform(0, 1);
  return at < 0.6   ? ScalarType::float32
         : at < 0.8 ? ScalarType::float64
         : at < 0.9 ? ScalarType::bfloat16
                    : ScalarType::float16;
}

TEST(Certificate, HoldsOnSmallMatrices) {
  Dice dice(101);
  Tally tally;
  for (int i = 0; i < repeats(7000, 300); ++i) {
    const MatrixXd G = random_matrix(dice.pick(3, 40), dice.pick(3, 40), dice);
    const double tau = sigma_max_of(G) * std::exp(dice.uniform(-4, 0.2));
    one_case(G, random_options(std::min(G.rows(), G.cols()), dice), tau, random_type(dice), tally, dice);
  }
  tally.print("3 to 40 a side");
  tally.expect_kept();
  EXPECT_GT(tally.certain, 0);
}

// A few directions over a flat bulk whose energy is too large for the certain bound to be the smaller one.
TEST(Certificate, HoldsOverANoiseBulk) {
  Dice dice(202);
  Tally tally;
  for (int i = 0; i < repeats(4200, 100); ++i) {
    const Index cols = dice.pick(90, 130);
    MatrixXd G = gaussian(110, cols, dice.random) / (std::sqrt(110.0) + std::sqrt(static_cast<double>(cols)));
    for (Index spike = dice.pick(0, 3); spike > 0; --spike)
      G += random_rank_one(110, cols, dice.uniform(0.5, 20), dice.random);
    ClipOptions options = random_options(12, dice);
    options.method = Method::tracked;  // a sketch draws no fresh columns after its first pass: always certain
    one_case(G, options, dice.uniform(0.3, 3), dice.chance(0.8) ? ScalarType::float32 : ScalarType::float64, tally,
             dice);
  }
  tally.print("110 x 90 to 130 over noise");
  tally.expect_kept();
  EXPECT_GE(tally.estimated, repeats(3000, 50));
}

// More values above 1.05 tau than the rank: never ok, and named for what it is once the rank is used up.
TEST(Certificate, TooSmallARankIsAlwaysFlagged) {
  Dice dice(303);
  int missed = 0;
  const int cases = repeats(1000, 100);
  for (int i = 0; i < cases; ++i) {
    const Index rows = dice.pick(12, 60);
    const Index cols = dice.pick(12, 60);
    const VectorXd sigma = random_spectrum(std::min(rows, cols), dice);
    const Index rank = dice.pick(1, 10);
    if (sigma[rank] <= 0) continue;
    const double tau = sigma[rank] / dice.uniform(1.05, 3);
    StoredMatrix G(ScalarType::float32, with_spectrum(rows, cols, sigma, dice.random()));
    const ClipOptions options{
        .method = dice.chance(0.5) ? Method::tracked : Method::sketched, .rank = rank, .seed = dice.random()};
    const ClipReport report = clip_singular_values(G.view(), tau, options);
    const bool flagged = report.clipped < rank ? report.status == ClipStatus::not_converged
                                               : report.status == ClipStatus::rank_exhausted;
    EXPECT_LE(report.clipped, rank);
    missed += flagged ? 0 : 1;
    EXPECT_TRUE(flagged) << "case " << i << ": " << rows << " x " << cols << ", " << to_string(options.method)
                         << ", rank " << rank << ", next " << sigma[rank] / tau << " tau, sigma_max " << sigma[0] / tau
                         << " tau, bound " << report.sigma_bound / tau << " tau, clipped " << report.clipped << ", "
                         << to_string(report.status);
  }
  EXPECT_EQ(missed, 0) << "of " << cases;
}

// rank values above tau, little energy below: no false alarm.
TEST(Certificate, ARankThatSufficesIsNotFlagged) {
  Dice dice(404);
  for (int i = 0; i < repeats(300, 50); ++i) {
    const Index rows = dice.pick(15, 60);
    const Index cols = dice.pick(15, 60);
    const Index rank = dice.pick(1, 8);
    VectorXd sigma = VectorXd::Constant(std::min(rows, cols), 0.02);  // unseen energy at most 45 * 0.02^2 = 0.018 tau^2
    for (Index j = 0; j < rank; ++j) sigma[j] = dice.uniform(1.2, 10);
    std::sort(sigma.begin(), sigma.end(), std::greater<>());
    StoredMatrix G(ScalarType::float32, with_spectrum(rows, cols, sigma, dice.random()));
    for (const Method method : {Method::tracked, Method::sketched}) {
      StoredMatrix copy = G;
      const ClipReport report =
          clip_singular_values(copy.view(), 1, {.method = method, .rank = rank, .seed = dice.random()});
      EXPECT_EQ(report.status, ClipStatus::ok)
          << to_string(method) << ", rank " << rank << ", bound " << report.sigma_bound;
      EXPECT_EQ(report.clipped, rank);
    }
  }
}

}  // namespace
}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// The search for a case in which `ok` is not true: random shapes, spectra, thresholds, types, cold and warm. `ok` says
// (i) sigma_max(G') <= tau (1 + margin) and (ii) ||G' - C_tau(G)||_F <= 3 (tolerance ||D||_F + margin tau), judged
// against float64. The worst case is printed. SPECTRALCLIP_PROMISE_CASES=100000 searches longer.
#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>

#include "clip/dead_band.h"
#include "spectralclip/clip.h"
#include "support/oracle.h"
#include "support/reference.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

struct Dice {
  std::mt19937_64 random;
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); }
  Index pick(Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); }
  bool chance(double p) { return uniform(0, 1) < p; }
};

struct Case {
  std::string name;
  VectorXd sigma;
  double tau = 1;
};

// tau between the values `above` and `above` + 1, or a hair from one of them.
double threshold_for(const VectorXd& sigma, Dice& dice) {
  const Index above =
      dice.chance(0.2) ? 0 : dice.pick(0, dice.chance(0.7) ? std::min<Index>(sigma.size(), 12) : sigma.size());
  if (above == 0) return sigma[0] * dice.uniform(1, 1.5);
  const double upper = sigma[above - 1];
  const double lower = above < sigma.size() ? sigma[above] : upper * 0.5;
  if (dice.chance(0.3)) return upper * (1 - dice.uniform(0, 3e-3));
  return std::max(lower + (upper - lower) * dice.uniform(0, 1), 1e-3 * sigma[0]);
}

Case random_case(Index r, Dice& dice) {
  const Eigen::ArrayXd at = Eigen::ArrayXd::LinSpaced(r, 0, static_cast<double>(r - 1));
  Case c;
  c.sigma = VectorXd::Ones(r);
  switch (dice.pick(0, 8)) {
    case 0: {
      const double q = dice.chance(0.5) ? dice.uniform(0.95, 0.9995) : dice.uniform(0.5, 0.95);
      c.name = "geometric";
      c.sigma = (at * std::log(q)).exp();
      break;
    }
    case 1:
      c.name = "power";
      c.sigma = (at + 1).pow(-dice.uniform(0.3, 2));
      break;
    case 2: {
      c.name = "plateau";
      c.sigma.setConstant(dice.uniform(0.9, 0.9999));
      for (Index i = 0; i < std::min<Index>(r, dice.pick(1, 12)); ++i) c.sigma[i] = 1 + dice.uniform(0, 0.2);
      c.tau = 1;
      break;
    }
    case 3: {
      c.name = "cluster at tau";
      c.sigma = (at * std::log(0.9)).exp() * 0.9;
      for (Index i = 0; i < std::min<Index>(r, dice.pick(1, 10)); ++i) c.sigma[i] = 1 + dice.uniform(-4e-3, 4e-3);
      break;
    }
    case 4:
      c.name = "spiked bulk";
      c.sigma.setConstant(dice.uniform(0.05, 0.9));
      for (Index i = 0; i < std::min<Index>(r, dice.pick(1, 6)); ++i) c.sigma[i] = std::exp(dice.uniform(0, 7));
      break;
    case 5:
      c.name = "huge spike";
      c.sigma = (at * std::log(0.9)).exp();
      c.sigma[0] = std::pow(10, dice.uniform(2, 12));
      if (r > 1) c.tau = c.sigma[1] * dice.uniform(0.3, 2);
      break;
    case 6:
      c.name = "uniform";
      for (double& s : c.sigma) s = dice.uniform(0, 1);
      break;
    case 7: {
      c.name = "quarter circle";  // a Gaussian matrix' own spectrum, near enough
      c.sigma = 2 * (1 - ((at + 0.5) / static_cast<double>(r)).pow(2.0 / 3)).sqrt();
      break;
    }
    default:
      c.name = "NanoGPT-like";
      c.sigma = (at * std::log(0.9)).exp() * 0.1;
      for (Index i = 0; i < std::min<Index>(r, 8); ++i)
        c.sigma[i] = std::pow(0.7, static_cast<double>(i)) * dice.uniform(0.9, 1.1);
  }
  std::sort(c.sigma.begin(), c.sigma.end(), std::greater<>());
  const bool fixed_tau = c.name == "plateau" || c.name == "cluster at tau" || (c.name == "huge spike" && r > 1);
  if (!fixed_tau || dice.chance(0.2)) c.tau = threshold_for(c.sigma, dice);
  if (dice.chance(0.1)) {
    const double unit = std::pow(10, dice.uniform(-9, 9));
    c.sigma *= unit;
    c.tau *= unit;
  }
  return c;
}

struct Shape {
  Index rows, cols;
};
Shape random_shape(Dice& dice) {
  const double at = dice.uniform(0, 1);
  if (at < 0.1) return {dice.pick(1, 12), dice.pick(1, 60)};
  if (at < 0.85) return {dice.pick(16, 130), dice.pick(16, 130)};
  if (at < 0.99) return {dice.pick(64, 400), dice.pick(64, 300)};
  return {dice.pick(300, 1024), dice.pick(300, 700)};
}

ScalarType random_type(Dice& dice) {
  const double at = dice.uniform(0, 1);
  return at < 0.6 ? ScalarType::float32 : at < 0.85 ? ScalarType::float64 : ScalarType::bfloat16;
}

// Orthonormal bases are the expensive part: those of a shape serve many spectra, with their columns shuffled.
struct Bases {
  Shape shape{};
  MatrixXd U, V;
  void renew(Shape wanted, Dice& dice) {
    shape = wanted;
    const Index r = std::min(shape.rows, shape.cols);
    U = random_basis(shape.rows, r, dice.random);
    V = random_basis(shape.cols, r, dice.random);
  }
};

// The truth of a matrix by an SVD in float64, off by how far its product is.
Reference truth_of(const MatrixXd& G) {
  const double scale = std::max(G.cwiseAbs().maxCoeff(), std::numeric_limits<double>::min());
  const Eigen::BDCSVD<MatrixXd> svd(G / scale, Eigen::ComputeThinU | Eigen::ComputeThinV);
  Reference truth = known_matrix(svd.matrixU(), svd.singularValues() * scale, svd.matrixV());
  truth.error = (truth.exact - G).norm() + 1e-14 * G.norm();
  return truth;
}

struct Tally {
  int cases = 0, ok = 0, broken = 0;
  double worst_left = 0, worst_error = 0;
  std::map<std::string, std::map<std::string, int>> statuses;
};

void judge_case(const Case& c, const MatrixXd& G, ScalarType type, const Reference& truth, const ClipOptions& options,
                const ClipReport& report, const StoredMatrix& after, Tally& tally) {
  ++tally.cases;
  ++tally.statuses[c.name][to_string(report.status)];
  if (report.status != ClipStatus::ok) return;
  ++tally.ok;
  const double eps = storage_epsilon(type);
  const double root = std::sqrt(static_cast<double>(std::max(G.rows(), G.cols())));
  const MatrixXd left = after.values();
  const bool dense = report.method != Method::tracked && report.method != Method::sketched;
  const double margin = dense ? 0.0 : options.margin;
  const double work = work_epsilon(type);
  const double rounding =
      16 * eps * std::min(left.norm(), root * c.tau) + 4 * work * left.norm() + dead_band(type) * c.tau;
  const double limit = c.tau * (1 + margin) + rounding;
  const double sigma = sigma_max_beside(left, limit);
  const double removed = truth.removed_norm(c.tau);
  const double error = (left - truth.clipped(c.tau)).norm();
  const double stored = (report.clipped > 0 ? eps * left.norm() : 0.0);
  const double allowed = 3 * (options.tolerance * removed + options.margin * c.tau) + truth.error + stored +
                         8 * work * root * G.norm() / root;
  tally.worst_left = std::max(tally.worst_left, (sigma / c.tau - 1) / options.margin);
  tally.worst_error = std::max(tally.worst_error, error / allowed);
  if (sigma <= limit && error <= allowed) return;
  ++tally.broken;
  if (tally.broken > 20) return;
  std::printf(
      "broken: %s, %lld x %lld %s, %s, tau %.6g sigma_1 %.6g above %lld clipped %lld passes %d width %lld, left %.5g "
      "tau, error %.3g of allowed, removed %.3g, bound %.4g tau %s\n",
      c.name.c_str(), static_cast<long long>(G.rows()), static_cast<long long>(G.cols()), to_string(type),
      to_string(report.method), c.tau, truth.sigma[0], static_cast<long long>(truth.above(c.tau)),
      static_cast<long long>(report.clipped), report.passes, static_cast<long long>(report.columns), sigma / c.tau,
      error / allowed, removed, report.sigma_bound / c.tau, to_string(report.bound_kind));
}

TEST(Promise, OkIsTrue) {
  const char* const wish = std::getenv("SPECTRALCLIP_PROMISE_CASES");
  const char* const seed = std::getenv("SPECTRALCLIP_PROMISE_SEED");
  const int count = wish != nullptr ? std::atoi(wish) : repeats(5000, 200);
  Dice dice{std::mt19937_64(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 20U)};
  Tally tally;
  Bases bases;
  for (int i = 0; i < count; ++i) {
    if (i % 8 == 0) bases.renew(random_shape(dice), dice);
    const Index r = std::min(bases.shape.rows, bases.shape.cols);
    const Case c = random_case(r, dice);
    const ScalarType type = random_type(dice);
    ClipOptions options;
    const double way = dice.uniform(0, 1);
    options.method = way < 0.2 ? Method::automatic : way < 0.9 ? Method::tracked : Method::sketched;
    options.exhausted = dice.chance(0.4) ? Exhausted::go_exact : Exhausted::report;
    if (dice.chance(0.3)) options.tolerance = std::pow(10, dice.uniform(-6, -2));
    if (dice.chance(0.1)) options.margin = std::pow(10, dice.uniform(-4, -2));
    options.seed = dice.random();
    const bool by_search = dice.chance(0.7);  // so small a matrix would mostly go to gram
    if (by_search && options.method == Method::tracked && r > 2) options.exhausted = Exhausted::report;
    MatrixClipper clipper(bases.shape.rows, bases.shape.cols, options);
    const Index steps = dice.chance(0.5) ? 1 : dice.pick(2, 4);
    const MatrixXd G = bases.U * c.sigma.asDiagonal() * bases.V.transpose();
    for (Index step = 1; step < steps; ++step) {  // warm, from gradients that were somewhat different
      MatrixXd before = G + 0.1 * c.tau / std::sqrt(static_cast<double>(r)) * gaussian(G.rows(), G.cols(), dice.random);
      if (dice.chance(0.3)) before = dice.uniform(0.1, 3) * gaussian(G.rows(), G.cols(), dice.random);
      StoredMatrix stored(type, before);
      (void)clipper.clip(stored.view(), c.tau);
    }
    StoredMatrix stored(type, G);
    const Reference truth = truth_of(stored.values());
    ASSERT_LE(truth.error, 1e-12 * truth.sigma[0] * std::sqrt(static_cast<double>(r))) << "the oracle failed";
    const ClipReport report = clipper.clip(stored.view(), c.tau);
    judge_case(c, G, type, truth, options, report, stored, tally);
  }
  std::printf("%d cases, %d ok, %d broken; worst left above tau: %.3f margins; worst error: %.3f of allowed\n",
              tally.cases, tally.ok, tally.broken, tally.worst_left, tally.worst_error);
  for (const auto& [name, counts] : tally.statuses) {
    std::printf("  %-16s", name.c_str());
    for (const auto& [status, number] : counts) std::printf(" %s %d", status.c_str(), number);
    std::printf("\n");
  }
  EXPECT_LE(1000 * tally.broken, tally.ok);
  EXPECT_GT(2 * tally.ok, tally.cases);
}

}  // namespace
}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// One list: every method over shapes x storage types x strides x spectra, against the float64 truth; then what a report
// must say, what must not be written, and what happens to input that is not finite. A file that includes it once names
// the methods and the engine they run on.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "conformance/method_case.h"
#include "factor/matrix_sign.h"
#include "support/compare.h"
#include "support/oracle.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"
#include "support/test_scale.h"

namespace spectralclip::testing {

using Eigen::Index;
using Eigen::MatrixXd;

struct Shape {
  Index rows, cols;
};
inline constexpr Shape kSmallShapes[] = {{1, 1}, {1, 37}, {37, 1}, {7, 5}, {5, 7}, {64, 64}, {100, 100}, {100, 101}};
inline constexpr Shape kWideShapes[] = {{384, 1536}, {768, 3072}, {3072, 768}, {2304, 768}};

// The known matrix of a shape and a spectrum; the bases of a shape are made once.
inline Reference make_known(const Shape& shape, const Spectrum& spectrum) {
  static std::map<std::pair<Index, Index>, std::pair<MatrixXd, MatrixXd>> bases;
  const Index r = std::min(shape.rows, shape.cols);
  auto [at, missing] = bases.try_emplace({shape.rows, shape.cols});
  if (missing) {
    std::mt19937_64 random(11);
    at->second = {random_basis(shape.rows, r, random), random_basis(shape.cols, r, random)};
  }
  return known_matrix(at->second.first, spectrum.sigma(r), at->second.second);
}

// The truth of what is stored: the same for every method, so where it takes an SVD it is made once a process.
inline Reference truth_of(const Reference& known, const char* spectrum, const StoredMatrix& stored, ScalarType type) {
  static std::map<std::tuple<ScalarType, Index, Index, std::string>, Reference> truths;
  const Index rows = known.exact.rows(), cols = known.exact.cols();
  if (rows * cols > 128 * 128) return reference_of(known, stored.values());  // no SVD, but much to keep
  const auto [at, missing] = truths.try_emplace({type, rows, cols, spectrum});
  if (missing) at->second = reference_of(known, stored.values());
  return at->second;
}

class Conformance : public ::testing::TestWithParam<std::tuple<MethodCase, ScalarType>> {
 protected:
  [[nodiscard]] const MethodCase& method() const { return std::get<0>(GetParam()); }
  [[nodiscard]] ScalarType type() const { return std::get<1>(GetParam()); }
  [[nodiscard]] ClipOptions options() const { return {.method = method().method}; }

  void check(const Shape& shape, const Spectrum& spectrum, Index padding) const;
  void check_report(const ClipReport& report, const Reference& truth, double tau, const StoredMatrix& after) const;
  void check_result(const ClipReport& report, const Reference& truth, double tau, const StoredMatrix& after) const;
  void check_count(const ClipReport& report, const Reference& truth, double tau) const;
  void check_prediction(const ClipReport& seen, const ClipReport& report, const Reference& truth) const;
  void check_bound(const ClipReport& report, const MatrixXd& after) const;
  [[nodiscard]] bool rank_suffices(const Reference& truth, double tau) const {
    return method().rank == 0 || truth.above(tau) <= method().rank;
  }
};

inline void Conformance::check_result(const ClipReport& report, const Reference& truth, double tau,
                                      const StoredMatrix& after) const {
  const MatrixXd expected = truth.clipped(tau);
  if (rank_suffices(truth, tau)) {
    // Algorithm 2 reads as often as it is told, sure or not; the others finish.
    EXPECT_TRUE(report.status == ClipStatus::ok || method().method == Method::sketched) << to_string(report.status);
    EXPECT_TRUE(close(after.values(), expected, allowed_error(method(), options(), type(), truth, tau, report)));
    return;
  }
  // More above tau than the rank: flagged, and what Algorithm 2 leaves lies between the input and the truth.
  EXPECT_EQ(report.status, ClipStatus::rank_exhausted);
  EXPECT_EQ(report.clipped, std::min<Index>(method().rank, truth.sigma.size()));
  EXPECT_LT((after.values() - expected).norm(), truth.removed_norm(tau) - truth.error);
}

inline void Conformance::check_report(const ClipReport& report, const Reference& truth, double tau,
                                      const StoredMatrix& after) const {
  const double norm = truth.sigma.norm();
  const double near = allowed_error(method(), options(), type(), truth, tau, report) +
                      rounding(ScalarType::float32, truth);  // norms are sums in the work type
  EXPECT_EQ(report.tau, tau);
  EXPECT_NEAR(report.norm_before, norm, rounding(ScalarType::float32, truth));
  EXPECT_NEAR(report.norm_after, after.values().norm(), near);
  const double removed = norm > 0 ? 1 - std::pow(report.norm_after / report.norm_before, 2) : 0.0;
  EXPECT_NEAR(report.removed_energy, removed, norm > 0 ? 4 * near / norm : 0.0);
  EXPECT_GE(report.removed_energy, 0);
  EXPECT_LE(report.removed_energy, 1);
  const double sigma_max = truth.sigma[0];
  EXPECT_LE(report.sigma_max, sigma_max + near + factor::kEigenvalueGap * sigma_max);
  if (method().method == Method::sketched) return;  // two passes on a flat bulk see sigma_max from below only
  const double below = method().subspace ? kSigmaSlack * kColdSigma : factor::kEigenvalueGap;
  EXPECT_GE(report.sigma_max, sigma_max * (1 - below) - near);
}

// Values that the method's error (Weyl) or the dead band could put on either side are left out from both ends.
inline void Conformance::check_count(const ClipReport& report, const Reference& truth, double tau) const {
  if (!rank_suffices(truth, tau)) return;
  const double margin = 2 * dead_band(type()) * tau + allowed_error(method(), options(), type(), truth, tau, report);
  EXPECT_GE(report.clipped, truth.above(tau + margin));
  EXPECT_LE(report.clipped, truth.above(tau - margin));
}

inline void Conformance::check_bound(const ClipReport& report, const MatrixXd& after) const {
  const Index side = std::min(after.rows(), after.cols());
  const double left = side > 400 ? sigma_max_from_below(after) : sigma_max_beside(after, report.sigma_bound);
  EXPECT_LE(left, report.sigma_bound) << to_string(report.bound_kind) << ", over by "
                                      << (left - report.sigma_bound) / report.sigma_max << " sigma_max";
}

// Without writing norm_after is predicted: norm_before^2 - removed energy, so it is the squares that agree, as far as
// the work type rounds them and the method's error lets the result differ from what the Ritz values say.
inline void Conformance::check_prediction(const ClipReport& seen, const ClipReport& report,
                                          const Reference& truth) const {
  if (!rank_suffices(truth, report.tau)) return;
  const double norm = truth.sigma.norm();
  const double near =
      allowed_error(method(), options(), type(), truth, report.tau, report) + rounding(ScalarType::float32, truth);
  EXPECT_NEAR(seen.norm_after * seen.norm_after, report.norm_after * report.norm_after, 4 * near * norm);
}

inline void Conformance::check(const Shape& shape, const Spectrum& spectrum, Index padding) const {
  const Reference known = make_known(shape, spectrum);
  const double tau = spectrum.tau;
  StoredMatrix G(type(), known.exact, padding);
  const StoredMatrix before = G;
  const Reference truth = truth_of(known, spectrum.name, before, type());
  const ClipReport report = method().clip(G.view(), tau, options());
  check_result(report, truth, tau, G);
  check_report(report, truth, tau, G);
  check_count(report, truth, tau);
  check_bound(report, G.values());
  EXPECT_TRUE(G.padding_intact());
  EXPECT_EQ(report.clipped == 0, before.bytes() == G.bytes());

  StoredMatrix watched = before;
  ClipOptions watching = options();
  watching.observe_only = true;
  const ClipReport seen = method().clip(watched.view(), tau, watching);
  EXPECT_EQ(watched.bytes(), before.bytes());
  check_prediction(seen, report, truth);
  // A search that clips in rounds cannot do so without writing: `gram` tells then.
  if (seen.method != report.method || seen.passes != report.passes) return;
  if (seen.status != report.status) {  // the norm of what was written may prove more than can be foretold
    EXPECT_EQ(seen.status, ClipStatus::not_converged);
    EXPECT_EQ(report.status, ClipStatus::ok);
    EXPECT_EQ(report.bound_kind, BoundKind::certain);
    EXPECT_LE(report.sigma_bound, tau * (1 + options().margin));
  }
  EXPECT_EQ(seen.sigma_max, report.sigma_max);
  EXPECT_EQ(seen.clipped, report.clipped);
  if (report.status == ClipStatus::ok) {  // else what was measured is the better figure
    EXPECT_NEAR(seen.removed_energy, report.removed_energy, 1e-3 * report.removed_energy);
  }
}

inline std::string describe(const Shape& shape, const Spectrum& spectrum) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + ", " + spectrum.name;
}

TEST_P(Conformance, EqualsTheTruthOnSmallShapes) {
  for (const Shape& shape : kSmallShapes) {
    if (quick() && std::min(shape.rows, shape.cols) > 64) continue;
    for (const Spectrum& spectrum : all_spectra()) {
      SCOPED_TRACE(describe(shape, spectrum));
      check(shape, spectrum, shape.cols % 4 == 0 ? 0 : 3);
    }
  }
}

TEST_P(Conformance, EqualsTheTruthOnLayers) {
  const bool cubic = method().widest <= 101;
  if (quick() || (cubic && type() != ScalarType::float32) || type() == ScalarType::float16) {
    GTEST_SKIP() << "large shapes only in full runs, dense SVDs only in float32";
  }
  for (const Shape& shape : kWideShapes) {
    const bool first = shape.rows == 384;
    if (!first && (cubic || type() != ScalarType::float32)) continue;
    for (const char* name : {"spiked", "fast decay", "slow decay, tau above", "flat"}) {
      const std::string_view spectrum = name;
      if (cubic && spectrum != "spiked") continue;
      if (!first && (spectrum == "flat" || (shape.rows != 768 && spectrum != "spiked"))) continue;
      SCOPED_TRACE(describe(shape, spectrum_named(name)));
      check(shape, spectrum_named(name), 5);
    }
  }
}

TEST_P(Conformance, NothingAboveTauIsNotWritten) {
  for (const Shape& shape : {Shape{7, 5}, Shape{64, 64}, Shape{37, 100}}) {
    StoredMatrix G(type(), make_known(shape, spectrum_named("slow decay")).exact);
    const auto before = G.bytes();
    for (const double tau : {1.5, 1e30, std::numeric_limits<double>::infinity()}) {
      const ClipReport report = method().clip(G.view(), tau, options());
      EXPECT_EQ(report.status, ClipStatus::ok);
      EXPECT_EQ(report.clipped, 0);
      EXPECT_EQ(report.removed_energy, 0);
      EXPECT_FALSE(report.written());
      EXPECT_EQ(G.bytes(), before);
    }
  }
}

TEST_P(Conformance, NotFiniteIsLeftAlone) {
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity()}) {
    for (const Shape& place : {Shape{0, 0}, Shape{20, 32}, Shape{36, 40}}) {
      for (const double tau : {0.0, 0.1, std::numeric_limits<double>::infinity()}) {
        MatrixXd values = make_known({37, 41}, spectrum_named("slow decay")).exact;
        values(place.rows, place.cols) = poison;
        StoredMatrix G(type(), values);
        const auto before = G.bytes();
        const ClipReport report = method().clip(G.view(), tau, options());
        EXPECT_EQ(report.status, ClipStatus::not_finite);
        EXPECT_FALSE(report.written());
        EXPECT_EQ(G.bytes(), before);
      }
    }
  }
}

inline std::string case_name(const ::testing::TestParamInfo<std::tuple<MethodCase, ScalarType>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + to_string(std::get<1>(info.param));
}

inline const auto kStorageTypes =
    ::testing::Values(ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16);

}  // namespace spectralclip::testing

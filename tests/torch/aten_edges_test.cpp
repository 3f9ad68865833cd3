// SPDX-License-Identifier: Apache-2.0
// What the conformance list does not reach: tau = 0, sizes near the ends of the number range, strides of all kinds,
// large ratios sigma_max / tau, norm clipping against the core, random columns, misuse, and rows of reports.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "aten/random_columns.h"
#include "clip/dead_band.h"
#include "random/name_hash.h"
#include "spectralclip/error.h"
#include "support/compare.h"
#include "support/oracle.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Method kAllMethods[] = {Method::exact,   Method::gram,          Method::sketched,
                                  Method::tracked, Method::newton_schulz, Method::automatic};
constexpr ScalarType kAllTypes[] = {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16,
                                    ScalarType::float16};

VectorXd two_large(Index r) {
  VectorXd sigma = 0.2 * VectorXd::Ones(r);
  sigma.head(2) << 3, 2;
  return sigma;
}

TEST(AtenErase, TauZeroErasesWhatIsFiniteAndNotZero) {
  const MatrixXd values = with_spectrum(30, 20, two_large(20));
  for (const Method method : kAllMethods) {
    for (const ScalarType type : kAllTypes) {
      StoredMatrix G(type, values);
      const ClipReport report = clip_by_aten(G.view(), 0, {.method = method});
      EXPECT_EQ(G.values().norm(), 0);
      EXPECT_TRUE(G.padding_intact());
      EXPECT_EQ(report.status, ClipStatus::ok);
      EXPECT_EQ(report.tau, 0);
      EXPECT_EQ(report.clipped, 20);
      EXPECT_EQ(report.norm_after, 0);
      EXPECT_EQ(report.removed_energy, 1);
      EXPECT_EQ(report.sigma_bound, 0);
      EXPECT_NEAR(report.sigma_max, 3, 3 * 3 * storage_epsilon(type) + 1e-3);

      StoredMatrix zero(type, MatrixXd::Zero(4, 6));
      EXPECT_EQ(clip_by_aten(zero.view(), 0, {.method = method}).clipped, 0);
      StoredMatrix watched(type, values);
      EXPECT_EQ(clip_by_aten(watched.view(), 0, {.method = method, .observe_only = true}).clipped, 20);
      EXPECT_GT(watched.values().norm(), 1);
    }
  }
}

// A matrix times s, clipped at s tau, is the clipped matrix times s, from 1e-30 to 1e30 in float32 (the squares of both
// are out of its range) and to 1e+-200 in float64.
TEST(AtenRange, ScalesDoNotMatter) {
  const MatrixXd values = with_spectrum(60, 40, two_large(40));
  const MatrixXd truth = Oracle(values).clipped(1);
  for (const Method method : {Method::tracked, Method::sketched, Method::gram}) {
    for (const double scale : {1e-30, 1e-18, 1.0, 1e18, 1e30, 1e-200, 1e200}) {
      const bool wide = scale < 1e-100 || scale > 1e100;
      StoredMatrix G(wide ? ScalarType::float64 : ScalarType::float32, values * scale);
      const ClipReport report = clip_by_aten(G.view(), scale, {.method = method});
      SCOPED_TRACE(scale);
      EXPECT_TRUE(report.status == ClipStatus::ok || method == Method::sketched);  // which reads as often as it is told
      EXPECT_EQ(report.clipped, 2);
      EXPECT_NEAR(report.sigma_max / scale, 3, 1e-5);
      EXPECT_NEAR(report.norm_before / scale, values.norm(), 1e-5);
      const double near = 3 * report.error_estimate * (values - truth).norm() + 1e-6 * values.norm();
      EXPECT_TRUE(close(G.values() / scale, truth, near));
      EXPECT_LT(report.error_estimate, 1e-3);
    }
  }
}

// In float64 nothing hides the method's own error: c sqrt(N) eps ||G||_F with c = 2.1 measured; the report allows 8.
TEST(AtenDense, ErrorIsRoundingOfFloat64) {
  double worst = 0;
  for (const auto& [rows, cols] : {std::pair<Index, Index>{40, 40}, {40, 70}, {70, 40}}) {
    for (const Spectrum& spectrum : all_spectra()) {
      StoredMatrix G(ScalarType::float64, with_spectrum(rows, cols, spectrum.sigma(40), 4));
      const MatrixXd values = G.values();
      if (values.norm() == 0) continue;
      const MatrixXd truth = Oracle(values).clipped(spectrum.tau);
      (void)clip_by_aten(G.view(), spectrum.tau, {.method = Method::exact});
      const double unit = std::sqrt(static_cast<double>(std::max(rows, cols))) * storage_epsilon(ScalarType::float64);
      worst = std::max(worst, (G.values() - truth).norm() / (unit * values.norm()));
    }
  }
  std::printf("dense clip by products: error at most %.2f sqrt(N) eps ||G||_F\n", worst);
  EXPECT_LE(worst, 4);
}

// sigma_max / tau up to 1e6 and tau below everything: error stays at rounding of the storage times ||G||_F, and the
// result lies within the dead band, so that a second clip writes nothing.
TEST(AtenDense, LargeRatiosAreAsAccurateAsSmallOnes) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
    for (const double ratio : {10.0, 1e4, 1e6}) {
      VectorXd sigma = VectorXd::LinSpaced(40, 1.5, 0.1);
      sigma[0] = ratio;
      StoredMatrix G(type, with_spectrum(50, 40, sigma, 2));
      const Oracle truth(G.values());
      const double rounding = 5 * std::sqrt(50.0) * storage_epsilon(type) * ratio;
      const ClipReport report = clip_by_aten(G.view(), 1, {.method = Method::gram});
      SCOPED_TRACE(std::to_string(ratio) + " " + to_string(type));
      EXPECT_EQ(report.status, ClipStatus::ok);
      EXPECT_TRUE(close(G.values(), truth.clipped(1), rounding));
      EXPECT_LE(spectral_norm(G.values()), report.sigma_bound);
      if (type == ScalarType::float64 && ratio > 100) continue;  // its dead band is 1e3 eps of tau
      const auto bytes = G.bytes();
      EXPECT_EQ(clip_by_aten(G.view(), 1, {.method = Method::gram}).clipped, 0);
      EXPECT_EQ(G.bytes(), bytes);
    }
  }
}

// Row-major, column-major, every second column, expanded batch: the tensor is changed where it lives, and nothing else.
TEST(AtenStrides, AnyLayoutIsClippedInPlace) {
  const MatrixXd values = with_spectrum(24, 36, two_large(24));
  const at::Tensor truth = to_tensor(Oracle(values).clipped(1));
  for (const Method method : {Method::tracked, Method::gram}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      at::Tensor wide = at::full({48, 72}, 7.0, type);
      at::Tensor spaced = wide.slice(0, 0, 48, 2).slice(1, 1, 72, 2);
      at::Tensor turned = at::empty({36, 24}, type).t();
      at::Tensor deep = at::full({24, 3, 36}, 7.0, type);
      for (at::Tensor G : {spaced, turned, deep.select(1, 1)}) {
        G.copy_(to_tensor(values));
        torch::aten::BatchSubspace state;
        const at::Tensor rows = torch::aten::clip_batch({G}, as_tensor({1.0}), {.method = method}, {0, {1}}, state);
        const double eps = type == at::kDouble ? 1e-4 : type == at::kFloat ? 1e-4 : 0x1p-7;
        EXPECT_LE((G.to(at::kDouble) - truth).norm().item<double>(), eps * values.norm());
      }
      EXPECT_EQ((wide == 7.0).sum().item<std::int64_t>(), 48 * 72 - 24 * 36);
      EXPECT_EQ((deep == 7.0).sum().item<std::int64_t>(), 24 * 2 * 36);
    }
  }
}

// Bits of a negative zero survive a step that clips nothing.
TEST(AtenBits, NegativeZeroStays) {
  for (const Method method : kAllMethods) {
    for (const ScalarType type : kAllTypes) {
      StoredMatrix G(type, MatrixXd::Constant(6, 9, -0.0));
      const auto bytes = G.bytes();
      EXPECT_EQ(clip_by_aten(G.view(), 1, {.method = method}).clipped, 0);
      EXPECT_EQ(G.bytes(), bytes);
    }
  }
}

TEST(AtenNorms, EqualTheCore) {
  std::mt19937_64 random(3);
  for (const ScalarType type : kAllTypes) {
    for (const double tau : {0.0, 0.5, 3.0, 1e9, std::numeric_limits<double>::infinity()}) {
      for (const double poison :
           {0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        MatrixXd values = gaussian(1, 57, random) * 0.3;
        values(0, 20) += poison;
        StoredMatrix ours(type, values);
        StoredMatrix core = ours;
        const auto before = ours.bytes();
        const ClipReport expected = clip_norm(core.view(), tau);
        const at::Tensor vector = as_tensor(ours.view())[0];
        (void)torch::aten::clip_norms({vector}, as_tensor({tau}), false);
        EXPECT_EQ(ours.bytes(), before);
        const ClipReport report = read_reports(torch::aten::clip_norms({vector}, as_tensor({tau}), true))[0];
        EXPECT_EQ(report.status, expected.status);
        EXPECT_EQ(report.clipped, expected.clipped);
        EXPECT_TRUE(ours.padding_intact());
        if (expected.clipped == 0) {
          EXPECT_EQ(ours.bytes(), before);
        }
        if (expected.status == ClipStatus::not_finite) continue;
        const double near = 57 * work_epsilon(type) * expected.norm_before;
        EXPECT_NEAR(report.sigma_max, expected.sigma_max, near);
        EXPECT_NEAR(report.norm_after, expected.norm_after, near);
        EXPECT_NEAR(report.removed_energy, expected.removed_energy, 57 * work_epsilon(type));
        EXPECT_TRUE(close(ours.values(), core.values(), 2 * storage_epsilon(type) * core.values().norm()));
      }
    }
  }
}

TEST(AtenNorms, MixedTypesAndShapes) {
  at::Tensor a = at::full({3, 4}, 2.0, at::kFloat);
  at::Tensor b = at::full({5}, 1.0, at::kDouble);
  at::Tensor c = at::full({}, -3.0, at::kBFloat16);
  const auto reports = read_reports(torch::aten::clip_norms({a, b, c}, as_tensor({1.0, 1e3, 1.5}), true));
  EXPECT_NEAR(a.norm().item<double>(), 1, 1e-6);
  EXPECT_EQ(b[0].item<double>(), 1);
  EXPECT_EQ(c.item<double>(), -1.5);
  EXPECT_EQ(reports[0].clipped + 2 * reports[1].clipped + 4 * reports[2].clipped, 5);
}

// The device's integers are the host's: SplitMix64 at the address, 53 bits, odd.
TEST(AtenRandom, EqualsTheHostsIntegers) {
  const torch::aten::BatchStream stream{~std::uint64_t{5}, {-3, 1}};
  const at::Tensor keys = torch::aten::stream_keys(stream, at::kCPU);
  const at::Tensor steps = at::tensor({4, 1000000}, at::kLong);
  const at::Tensor columns = torch::aten::random_columns(keys, steps, 1, 7, 3);
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  for (std::int64_t l = 0; l < 2; ++l) {
    const auto id = static_cast<std::uint64_t>(stream.matrix_ids[static_cast<std::size_t>(l)]);
    const std::uint64_t key = mixed_bits(stream.seed + kGolden * mixed_bits(id + 1));
    const auto step = static_cast<std::uint64_t>(steps[l].item<std::int64_t>());
    const std::uint64_t address = mixed_bits(mixed_bits(key + step * kGolden) + 1);
    for (std::int64_t i = 0; i < 21; ++i) {
      const auto bits = static_cast<std::int64_t>(mixed_bits(address + kGolden * static_cast<std::uint64_t>(i))) >> 11;
      const double expected = static_cast<double>(bits | 1) * (std::sqrt(3.0) * 0x1p-52);
      EXPECT_EQ(columns[l][i / 3][i % 3].item<double>(), expected);
    }
  }
}

// Mean 0, variance 1, fourth moment 9/5, within (-sqrt 3, sqrt 3); columns, steps, passes and matrices uncorrelated.
TEST(AtenRandom, IsUniformAndIndependent) {
  const std::int64_t n = 20000;
  const at::Tensor keys = torch::aten::stream_keys({1, {1, 2}}, at::kCPU);
  const auto draw = [&](std::int64_t step, std::int64_t pass) {
    return torch::aten::random_columns(keys, at::full({2}, step, at::kLong), pass, n, 4);
  };
  const at::Tensor all = at::cat({draw(0, 0), draw(0, 1), draw(1, 0)}, 2).permute({0, 2, 1}).reshape({24, n});
  EXPECT_LT(all.abs().max().item<double>(), std::sqrt(3.0));
  EXPECT_GT(all.abs().max().item<double>(), std::sqrt(3.0) * (1 - 1e-4));
  const double five_deviations = 5 / std::sqrt(static_cast<double>(n));
  const at::Tensor correlation = all.mm(all.t()) / static_cast<double>(n) - at::eye(24, at::kDouble);
  EXPECT_LT(correlation.abs().max().item<double>(), five_deviations);  // variance of x^2 is 4/5, of xy is 1
  EXPECT_LT(all.mean(1).abs().max().item<double>(), five_deviations);
  EXPECT_LT((all.pow(4).mean(1) - 1.8).abs().max().item<double>(), five_deviations * std::sqrt(9 - 3.24));
}

TEST(AtenMisuse, IsRefused) {
  torch::aten::BatchSubspace state;
  const auto clip = [&](const std::vector<at::Tensor>& matrices, const at::Tensor& tau, std::vector<std::int64_t> ids) {
    (void)torch::aten::clip_batch(matrices, tau, {}, {0, std::move(ids)}, state);
  };
  const at::Tensor G = at::ones({3, 4});
  EXPECT_THROW(clip({}, as_tensor({1.0}), {}), InvalidArgument);
  EXPECT_THROW(clip({G, at::ones({4, 3})}, as_tensor({1.0, 1.0}), {1, 2}), InvalidArgument);
  EXPECT_THROW(clip({G, G.to(at::kDouble)}, as_tensor({1.0, 1.0}), {1, 2}), InvalidArgument);
  EXPECT_THROW(clip({G.to(at::kInt)}, as_tensor({1.0}), {1}), InvalidArgument);
  EXPECT_THROW(clip({at::ones({3})}, as_tensor({1.0}), {1}), InvalidArgument);
  EXPECT_THROW(clip({G}, as_tensor({1.0, 2.0}), {1}), InvalidArgument);
  EXPECT_THROW(clip({G}, as_tensor({1.0}).to(at::kFloat), {1}), InvalidArgument);
  EXPECT_THROW(clip({G}, as_tensor({1.0}), {1, 2}), InvalidArgument);
}

TEST(AtenReportRows, GoThereAndBack) {
  ClipReport report;
  report.status = ClipStatus::rank_exhausted;
  report.method = Method::gram;
  report.tau = 1;
  report.sigma_max = 2;
  report.clipped = 3;
  report.norm_before = 4;
  report.norm_after = 5;
  report.removed_energy = 0.6;
  report.sigma_bound = 7;
  report.bound_kind = BoundKind::estimated;
  report.error_estimate = 8;
  report.passes = 9;
  report.columns = 10;
  std::array<double, torch::kReportFields> row{};
  std::array<double, torch::kReportFields> again{};
  torch::write_row(report, row);
  torch::write_row(torch::read_row(row), again);
  EXPECT_EQ(row, again);
  EXPECT_EQ(row, (std::array<double, torch::kReportFields>{2, 1, 1, 2, 3, 4, 5, 0.6, 7, 1, 8, 9, 10}));
  row.fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(torch::read_row(row).clipped, 0);  // a layer without a gradient
}

}  // namespace
}  // namespace spectralclip::testing

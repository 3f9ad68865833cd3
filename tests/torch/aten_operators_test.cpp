// SPDX-License-Identifier: Apache-2.0
// Which operators a step uses: none that hands a number to the host, checks a factorisation there or has a result whose
// shape depends on data; the same sequence of operators whatever the numbers; no draw from torch's generator.
#include <gtest/gtest.h>

#include <ATen/record_function.h>

#include <limits>
#include <map>
#include <set>
#include <string>

#include "aten/thresholds.h"
#include "support/oracle.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

using Eigen::MatrixXd;

thread_local std::vector<std::string>* recorded = nullptr;

template <class Run>
std::vector<std::string> operators_of(const Run& run) {
  std::vector<std::string> names;
  recorded = &names;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        recorded->emplace_back(call.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  return names;
}

// What waits for a device, or has a shape that only the device knows.
const std::set<std::string> kRefused = {"aten::item",
                                        "aten::_local_scalar_dense",
                                        "aten::is_nonzero",
                                        "aten::equal",
                                        "aten::allclose",
                                        "aten::nonzero",
                                        "aten::masked_select",
                                        "aten::index",
                                        "aten::unique",
                                        "aten::_unique2",
                                        "aten::bincount",
                                        "aten::repeat_interleave",
                                        "aten::linalg_eigh",
                                        "aten::_linalg_eigh",
                                        "aten::linalg_svd",
                                        "aten::_linalg_svd",
                                        "aten::linalg_eig",
                                        "aten::linalg_eigvalsh",
                                        "aten::linalg_inv",
                                        "aten::linalg_inv_ex",
                                        "aten::linalg_solve",
                                        "aten::_linalg_solve_ex",
                                        "aten::linalg_qr",
                                        "aten::linalg_lstsq",
                                        "aten::linalg_cholesky",
                                        "aten::_linalg_check_errors",
                                        "aten::_assert_async",
                                        "aten::rand",
                                        "aten::randn",
                                        "aten::uniform_",
                                        "aten::normal_",
                                        "aten::random_",
                                        "aten::cpu",
                                        "aten::to_dense",
                                        "aten::tensor"};

void expect_none_refused(const std::vector<std::string>& names) {
  ASSERT_GT(names.size(), 10u);
  for (const std::string& name : names) EXPECT_EQ(kRefused.count(name), 0u) << name;
}

// Two matrices, the second of which may be poisoned; three steps of a state, the first of them cold.
std::vector<std::string> operators_of_steps(const ClipOptions& options, at::ScalarType type, std::int64_t rows,
                                            std::int64_t cols, double poison, double tau) {
  std::vector<at::Tensor> matrices = {at::ones({rows, cols}, type), at::eye(rows, cols, type).mul_(3)};
  matrices[1].select(0, 0).select(0, 0).fill_(poison);
  const at::Tensor limit = as_tensor({tau, tau});
  return operators_of([&] {
    torch::aten::BatchSubspace state;
    for (int step = 0; step < 3; ++step) {
      (void)torch::aten::clip_batch(matrices, limit, options, {0, {1, 2}}, state);
    }
  });
}

TEST(AtenOperators, NoneWaitsAndNoneDependsOnData) {
  for (const Method method : {Method::tracked, Method::sketched, Method::gram}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const std::int64_t cols : {20, 3000}) {  // stacked, and one by one
        if (method == Method::gram && cols == 3000) continue;
        const ClipOptions options{.method = method};
        const auto names = operators_of_steps(options, type, 30, cols, 1.0, 0.5);
        expect_none_refused(names);
        EXPECT_EQ(names, operators_of_steps(options, type, 30, cols, std::numeric_limits<double>::quiet_NaN(), 0));
        EXPECT_EQ(names, operators_of_steps(options, type, 30, cols, 1e9, 1e-9));
      }
    }
  }
}

TEST(AtenOperators, ThresholdsAndNormsWaitForNothing) {
  for (const ThresholdKind kind : {ThresholdKind::constant, ThresholdKind::ema, ThresholdKind::quantile}) {
    for (const Interpolation interpolation : {Interpolation::lower, Interpolation::linear}) {
      torch::aten::BatchThresholds thresholds({.kind = kind, .interpolation = interpolation}, 2, at::kCPU);
      const at::Tensor values = as_tensor({1.0, 2.0});
      const at::Tensor seen = values > 1;
      const std::vector<at::Tensor> vectors = {at::ones({3}), at::ones({4, 5})};
      expect_none_refused(operators_of([&] {
        const at::Tensor tau = thresholds.tau();
        (void)torch::aten::clip_norms(vectors, tau, true);
        thresholds.observe(values, seen);
      }));
    }
  }
}

// The recorder sees what it should: these tests can fail.
TEST(AtenOperators, TheRecorderSeesWhatWaits) {
  const at::Tensor x = at::ones({3});
  const auto names = operators_of([&] { (void)x.sum().item<float>(); });
  EXPECT_EQ(std::count(names.begin(), names.end(), "aten::item"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "aten::_local_scalar_dense"), 1);
}

// How many operators a warm step takes, whatever the number of matrices: the host's share of the time.
TEST(AtenOperators, CountDoesNotGrowWithTheBatch) {
  std::map<std::int64_t, std::size_t> counts;
  for (const std::int64_t L : {1, 8}) {
    torch::aten::BatchSubspace state;
    std::vector<at::Tensor> matrices;
    torch::aten::BatchStream stream;
    for (std::int64_t i = 0; i < L; ++i) {
      matrices.push_back(to_tensor(with_spectrum(40, 30, Eigen::VectorXd::Ones(30))));
      stream.matrix_ids.push_back(i);
    }
    const at::Tensor tau = at::full({L}, 0.5, at::kDouble);
    (void)torch::aten::clip_batch(matrices, tau, {}, stream, state);
    const auto names = operators_of([&] { (void)torch::aten::clip_batch(matrices, tau, {}, stream, state, false); });
    counts[L] = names.size();
  }
  std::printf("operators of a warm tracked step: %zu for one matrix, %zu for eight\n", counts[1], counts[8]);
  EXPECT_LE(counts[8], counts[1] + 7 * 40);  // norms, slices and writes are per matrix; the algebra is not
}

}  // namespace
}  // namespace spectralclip::testing

// SPDX-License-Identifier: Apache-2.0
// The trace-regression problem, and its clip from known factors against clips by a full SVD and by the library.
#include "studies/trace_problem.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <cmath>

#include "constants.h"
#include "lab/trace_matrices.h"
#include "spectralclip/clip.h"
#include "studies/trace_method.h"

namespace spectralclip::lab {
namespace {

TEST(TraceProblem, TermsAreWhatThePaperSays) {
  const TraceConfig config{.n = 5, .terms = 7};
  const TraceProblem problem = make_trace_problem(config, 3);
  double L = 0;
  for (std::int64_t i = 0; i < problem.terms; ++i) {
    const Matrix A = matrix_of(problem, i);
    EXPECT_LE((A - A.transpose()).norm(), 8 * kEps);
    const Eigen::VectorXd sigma = Eigen::JacobiSVD<Matrix>(A).singularValues();
    EXPECT_GE(sigma.minCoeff(), 0.5 - 32 * kEps);
    EXPECT_LE(sigma.maxCoeff(), 1.5 + 32 * kEps);
    for (std::int64_t j = 0; j < problem.n; ++j)
      EXPECT_NEAR(sigma[j], problem.eigenvalues(i)[static_cast<std::size_t>(j)], 64 * kEps);
    L += 2 * A.squaredNorm() / 7;
  }
  EXPECT_NEAR(problem.L, L, 16 * kEps * L);
  EXPECT_NE(make_trace_problem(config, 4).A, problem.A);
  EXPECT_NE(matrix_of(problem, 0), matrix_of(problem, 1));
}

// From none to all singular values above tau, both signs. The clip is 1-Lipschitz: errors are those of the factors.
TEST(TraceProblem, ClipFromFactorsIsTheClipBySvd) {
  for (const std::int64_t n : {1, 2, 3, 8, 64}) {
    const TraceProblem problem = make_trace_problem({.n = n, .terms = 2}, 5);
    for (const double c : {2.0, -2.0, 1e-3}) {
      for (const double tau : {0.0, 0.5, 1.5, 2.0, 2.5, 4.0, kInfinity}) {
        const Matrix G = c * matrix_of(problem, 1);
        const Matrix expected = clipped_by_svd(G, tau);
        Matrix clipped = Matrix::Zero(n, n), removed = Matrix::Zero(n, n);
        const std::size_t size = static_cast<std::size_t>(n * n);
        const double sigma_max = add_clipped(problem, 1, c, tau, 1.0, {clipped.data(), size});
        add_removed(problem, 1, c, tau, 1.0, {removed.data(), size});
        const double limit = 64 * kEps * std::sqrt(static_cast<double>(n)) * G.norm();
        EXPECT_LE((clipped - expected).norm(), limit) << n << " " << c << " " << tau;
        EXPECT_LE((removed - (G - expected)).norm(), limit) << n << " " << c << " " << tau;
        EXPECT_NEAR(sigma_max, sigma_max_of(G), limit);
        Matrix by_core = G;
        (void)clip_singular_values(MatrixView<double>(by_core.data(), n, n), tau, {.method = Method::exact});
        EXPECT_LE((clipped - by_core).norm(), limit) << n << " " << c << " " << tau;
        EXPECT_TRUE(tau > 0 || clipped.norm() == 0);  // frozen means frozen
        EXPECT_TRUE(tau < kInfinity || removed.norm() == 0);
      }
    }
  }
}

TEST(PythonFloat, AsPythonWritesIt) {
  EXPECT_EQ(python_float(0.05), "0.05");
  EXPECT_EQ(python_float(1), "1.0");
  EXPECT_EQ(python_float(-3), "-3.0");
  EXPECT_EQ(python_float(1e-5), "1e-05");
  EXPECT_EQ(python_float(0.0001), "0.0001");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(0.1 + 0.2), "0.30000000000000004");
}

}  // namespace
}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// What a clip writes down does the same to an equal matrix, bit for bit, for every method and type; damaged or foreign
// factors are refused with the matrix as it was.
#include "spectralclip/factors.h"

#include <gtest/gtest.h>

#include <vector>

#include "spectralclip/clip.h"
#include "spectralclip/error.h"
#include "support/oracle.h"
#include "support/spectra.h"
#include "support/stored_matrix.h"

namespace spectralclip::testing {
namespace {

// Several values above tau, and one so large that a second round follows.
Eigen::MatrixXd steep(Eigen::Index rows, Eigen::Index cols, double largest) {
  const Eigen::Index r = std::min(rows, cols);
  Eigen::VectorXd sigma(r);
  for (Eigen::Index i = 0; i < r; ++i) sigma[i] = std::pow(0.8, static_cast<double>(i)) * 4;
  sigma[0] = largest;
  return with_spectrum(rows, cols, sigma, 3);
}

std::vector<std::uint8_t> bytes_of(const AnyMatrix& G) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < G.rows; ++i) {
    const auto* row = static_cast<const std::uint8_t*>(G.data) + i * G.row_stride * size_of(G.type);
    bytes.insert(bytes.end(), row, row + G.cols * size_of(G.type));
  }
  return bytes;
}

TEST(ClipFactors, DoTheSameToAnEqualMatrix) {
  for (const ScalarType type : {ScalarType::float32, ScalarType::float64, ScalarType::bfloat16, ScalarType::float16}) {
    for (const Method method :
         {Method::automatic, Method::tracked, Method::sketched, Method::gram, Method::exact, Method::newton_schulz}) {
      for (const double tau : {1.0, 0.0, 100000.0}) {
        for (const auto& [rows, cols] : {std::pair{90, 60}, std::pair{50, 120}, std::pair{1, 9}}) {
          const Eigen::MatrixXd G = steep(rows, cols, type == ScalarType::float32 ? 3e4 : 40);
          StoredMatrix one(type, G), other(type, G);
          ClipOptions options;
          options.method = method;
          ClipFactors factors;
          const std::vector<std::uint8_t> before = bytes_of(one.view());
          const ClipReport report = clip_singular_values(one.view(), tau, options, factors);
          apply_factors(other.view(), ClipFactors({factors.bytes().begin(), factors.bytes().end()}));
          EXPECT_TRUE(bytes_of(one.view()) == bytes_of(other.view()))
              << to_string(method) << ", " << to_string(type) << ", tau " << tau;
          EXPECT_EQ(factors.empty(), bytes_of(one.view()) == before) << to_string(method) << ", " << report.clipped;
        }
      }
    }
  }
}

TEST(ClipFactors, ThoseOfASearchAreFewNumbers) {
  StoredMatrix G(ScalarType::float32, steep(300, 200, 10));
  ClipOptions options;
  options.method = Method::tracked;
  ClipFactors factors;
  const ClipReport report = clip_singular_values(G.view(), 2.0, options, factors);
  ASSERT_GT(report.clipped, 1);
  EXPECT_LE(factors.bytes().size(), static_cast<std::size_t>(report.clipped) * 201 * 4 + 64);
}

TEST(ClipFactors, ForeignOrDamagedOnesAreRefused) {
  StoredMatrix G(ScalarType::float32, steep(90, 60, 10)), other(ScalarType::float32, steep(90, 61, 10));
  StoredMatrix wide(ScalarType::float64, steep(90, 60, 10));
  ClipOptions options;
  options.method = Method::tracked;
  options.rank = 3;
  ClipFactors factors;
  (void)clip_singular_values(G.view(), 1.0, options, factors);
  const std::vector<std::uint8_t> good(factors.bytes().begin(), factors.bytes().end());
  const auto untouched = bytes_of(other.view());
  EXPECT_THROW(apply_factors(other.view(), factors), InvalidArgument);
  EXPECT_THROW(apply_factors(wide.view(), factors), InvalidArgument);
  StoredMatrix same(ScalarType::float32, steep(90, 60, 10));
  const auto fresh = bytes_of(same.view());
  for (std::size_t size = 1; size < good.size(); size += 13)
    EXPECT_THROW(
        apply_factors(same.view(), ClipFactors({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)})),
        InvalidArgument);
  EXPECT_TRUE(bytes_of(other.view()) == untouched && bytes_of(same.view()) == fresh);
}

}  // namespace
}  // namespace spectralclip::testing

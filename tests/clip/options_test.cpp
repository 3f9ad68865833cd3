// SPDX-License-Identifier: Apache-2.0
// Ranges of the clip options, names of methods, statuses and types, and the checks of a borrowed matrix.
#include "spectralclip/options.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "spectralclip/error.h"
#include "spectralclip/matrix.h"
#include "spectralclip/report.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

template <class Argument>
std::string refusal(const Argument& argument) {
  try {
    validate(argument);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

template <class Change>
std::string refusal_after(Change change) {
  ClipOptions options;
  change(options);
  return refusal(options);
}

#define EXPECT_REFUSED(assignment, text) EXPECT_EQ(refusal_after([](ClipOptions& o) { assignment; }), text)
#define EXPECT_ACCEPTED(assignment) EXPECT_EQ(refusal_after([](ClipOptions& o) { assignment; }), "accepted")

TEST(ClipOptionsRange, MessagesNameValueAndRange) {
  EXPECT_REFUSED(o.rank = 0, "rank = 0 must lie in [1, 2147483647]");
  EXPECT_REFUSED(o.rank = kHuge, "rank = 9223372036854775807 must lie in [1, 2147483647]");
  EXPECT_REFUSED(o.oversampling = -1, "oversampling = -1 must lie in [0, 2147483647]");
  EXPECT_REFUSED(o.power_passes = -1, "power_passes = -1 must lie in [0, 16]");
  EXPECT_REFUSED(o.power_passes = 17, "power_passes = 17 must lie in [0, 16]");
  EXPECT_REFUSED(o.tolerance = 0, "tolerance = 0 must lie in (0, 1)");
  EXPECT_REFUSED(o.tolerance = 1, "tolerance = 1 must lie in (0, 1)");
  EXPECT_REFUSED(o.tolerance = std::numeric_limits<double>::quiet_NaN(), "tolerance = nan must lie in (0, 1)");
  EXPECT_REFUSED(o.margin = 0, "margin = 0 must lie in (0, 0.1]");
  EXPECT_REFUSED(o.margin = -1e-3, "margin = -0.001 must lie in (0, 0.1]");
  EXPECT_REFUSED(o.margin = 0.11, "margin = 0.11 must lie in (0, 0.1]");
  EXPECT_REFUSED(o.margin = std::numeric_limits<double>::quiet_NaN(), "margin = nan must lie in (0, 0.1]");
  EXPECT_REFUSED(o.max_passes = 0, "max_passes = 0 must lie in [1, 64]");
  EXPECT_REFUSED(o.max_passes = 65, "max_passes = 65 must lie in [1, 64]");
  EXPECT_REFUSED(o.max_columns = 7, "max_columns = 7 must lie in [8, 512]");
  EXPECT_REFUSED(o.max_columns = 513, "max_columns = 513 must lie in [8, 512]");
  EXPECT_REFUSED(o.method = static_cast<Method>(6),
                 "method = 6 is none of exact, gram, sketched, tracked, newton_schulz, auto (0 to 5)");
  EXPECT_REFUSED(o.exhausted = static_cast<Exhausted>(3),
                 "exhausted = 3 is none of go_exact (0), report (1), auto (2)");
}

TEST(ClipOptionsRange, EdgesAreAccepted) {
  EXPECT_ACCEPTED(static_cast<void>(o));
  EXPECT_ACCEPTED(o.rank = 1);
  EXPECT_ACCEPTED(o.oversampling = 0);
  EXPECT_ACCEPTED(o.power_passes = 0);
  EXPECT_ACCEPTED(o.power_passes = 16);
  EXPECT_ACCEPTED(o.margin = 0.1);
  EXPECT_ACCEPTED(o.margin = std::numeric_limits<double>::min());
  EXPECT_ACCEPTED(o.max_passes = 1);
  EXPECT_ACCEPTED(o.max_passes = 64);
  EXPECT_ACCEPTED(o.max_columns = 512);
  for (const Exhausted each : {Exhausted::go_exact, Exhausted::report, Exhausted::automatic}) {
    ClipOptions options;
    options.exhausted = each;
    EXPECT_EQ(refusal(options), "accepted");
  }
}

TEST(ClipOptionsDefaults, AreThoseThatTheManualNames) {
  const ClipOptions options;
  EXPECT_EQ(options.method, Method::automatic);
  EXPECT_EQ(options.exhausted, Exhausted::automatic);
  EXPECT_EQ(options.margin, 1e-3);
  EXPECT_EQ(options.tolerance, 1e-4);
  EXPECT_EQ(options.max_passes, 8);
  EXPECT_EQ(options.max_columns, 64);
  EXPECT_FALSE(options.rank.has_value());
}

TEST(MethodNames, RoundTripAndErrorListsThemAll) {
  for (int i = 0; i <= static_cast<int>(Method::automatic); ++i) {
    const auto method = static_cast<Method>(i);
    EXPECT_EQ(parse_method(to_string(method)), method);
  }
  EXPECT_EQ(parse_method("auto"), Method::automatic);
  for (const char* foreign : {"", "svd", "Exact", "exact ", "unknown", "automatic"}) {
    EXPECT_THROW(static_cast<void>(parse_method(foreign)), InvalidArgument) << foreign;
  }
  try {
    static_cast<void>(parse_method("svd"));
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "method \"svd\" is none of exact, gram, sketched, tracked, newton_schulz, auto");
  }
}

TEST(ReportNames, AreTheEnumerators) {
  EXPECT_STREQ(to_string(ClipStatus::ok), "ok");
  EXPECT_STREQ(to_string(ClipStatus::not_finite), "not_finite");
  EXPECT_STREQ(to_string(ClipStatus::rank_exhausted), "rank_exhausted");
  EXPECT_STREQ(to_string(ClipStatus::factorization_failed), "factorization_failed");
  EXPECT_STREQ(to_string(ClipStatus::not_converged), "not_converged");
  EXPECT_STREQ(to_string(ClipStatus::out_of_range), "out_of_range");
  EXPECT_STREQ(to_string(BoundKind::certain), "certain");
  EXPECT_STREQ(to_string(BoundKind::estimated), "estimated");
  EXPECT_STREQ(to_string(ScalarType::float32), "float32");
  EXPECT_STREQ(to_string(ScalarType::float64), "float64");
  EXPECT_STREQ(to_string(ScalarType::bfloat16), "bfloat16");
  EXPECT_STREQ(to_string(ScalarType::float16), "float16");
  EXPECT_STREQ(to_string(static_cast<ClipStatus>(99)), "unknown");
}

// Files and the C interface hold the numbers.
TEST(ReportNames, NumbersStay) {
  EXPECT_EQ(static_cast<int>(ClipStatus::ok), 0);
  EXPECT_EQ(static_cast<int>(ClipStatus::not_finite), 1);
  EXPECT_EQ(static_cast<int>(ClipStatus::rank_exhausted), 2);
  EXPECT_EQ(static_cast<int>(ClipStatus::factorization_failed), 3);
  EXPECT_EQ(static_cast<int>(ClipStatus::not_converged), 4);
  EXPECT_EQ(static_cast<int>(ClipStatus::out_of_range), 5);
  EXPECT_EQ(static_cast<int>(Exhausted::go_exact), 0);
  EXPECT_EQ(static_cast<int>(Exhausted::report), 1);
  EXPECT_EQ(static_cast<int>(Exhausted::automatic), 2);
}

TEST(ReportNames, ObservedIsWhatWasLookedAtAsAWhole) {
  EXPECT_TRUE(observed(ClipStatus::ok));
  EXPECT_TRUE(observed(ClipStatus::rank_exhausted));
  EXPECT_TRUE(observed(ClipStatus::not_converged));
  EXPECT_FALSE(observed(ClipStatus::not_finite));
  EXPECT_FALSE(observed(ClipStatus::factorization_failed));
  EXPECT_FALSE(observed(ClipStatus::out_of_range));
}

TEST(MatrixCheck, AcceptsPackedStridedAndVectors) {
  std::array<float, 12> data{};
  EXPECT_EQ(refusal(AnyMatrix(data.data(), ScalarType::float32, 3, 4, 4)), "accepted");
  EXPECT_EQ(refusal(AnyMatrix(data.data(), ScalarType::float32, 3, 2, 4)), "accepted");
  EXPECT_EQ(refusal(AnyMatrix(data.data(), ScalarType::float32, 1, 12, 12)), "accepted");
  EXPECT_EQ(refusal(AnyMatrix(data.data(), ScalarType::float32, 1, 1, 1)), "accepted");
}

TEST(MatrixCheck, RefusesWithTheValues) {
  float x = 0;
  EXPECT_EQ(refusal(AnyMatrix(nullptr, ScalarType::float32, 3, 4, 4)),
            "matrix of 3 x 4 entries has a null data pointer");
  EXPECT_EQ(refusal(AnyMatrix(&x, ScalarType::float32, 0, 4, 4)),
            "matrix of 0 x 4 entries: both dimensions must be >= 1");
  EXPECT_EQ(refusal(AnyMatrix(&x, ScalarType::float32, 4, -1, 4)),
            "matrix of 4 x -1 entries: both dimensions must be >= 1");
  EXPECT_EQ(refusal(AnyMatrix(&x, ScalarType::float32, 3, 4, 3)), "row_stride = 3 must be >= cols = 4");
  EXPECT_EQ(refusal(AnyMatrix(&x, static_cast<ScalarType>(4), 1, 1, 1)),
            "scalar type = 4 is none of float32 (0), float64 (1), bfloat16 (2), float16 (3)");
}

TEST(MatrixCheck, RefusesWhatOverflowsTheAddressRange) {
  double x = 0;
  const std::int64_t side = std::int64_t{1} << 30;  // side * side * 8 bytes = 2^63
  EXPECT_NE(refusal(AnyMatrix(&x, ScalarType::float64, side, side, side)).find("exceeds the address range"),
            std::string::npos);
  EXPECT_NE(refusal(AnyMatrix(&x, ScalarType::float64, 2, 1, kHuge)).find("exceeds the address range"),
            std::string::npos);
  EXPECT_EQ(refusal(AnyMatrix(&x, ScalarType::float32, side, side, side)), "accepted");  // 2^62 bytes: by index type
}

}  // namespace
}  // namespace spectralclip

// SPDX-License-Identifier: Apache-2.0
// 16-bit floats: every pattern, every tie between neighbours and what lies just beside it, overflow, subnormals, NaN;
// vector and scalar conversion against each other and against an oracle in double arithmetic that knows only the
// format: precision, exponent range, round to nearest even.
#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>

#include "kernels/every_target.h"
#include "kernels/guarded.h"
#include "kernels/reference.h"

namespace spectralclip::kernels {
namespace {

template <class Half>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int kFraction = 7;
  static constexpr int kBias = 127;
};
template <>
struct Format<Float16> {
  static constexpr int kFraction = 10;
  static constexpr int kBias = 15;
};

template <class Half>
constexpr int kTopExponent = (1 << (15 - Format<Half>::kFraction)) - 1;

// The number that a pattern stands for: (-1)^s 2^(e - bias) 1.f, or 2^(1 - bias) 0.f.
template <class Half>
double value_of(std::uint16_t bits) {
  using F = Format<Half>;
  const int exponent = (bits & 0x7fff) >> F::kFraction;
  const int fraction = bits & ((1 << F::kFraction) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == kTopExponent<Half>) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - F::kBias - F::kFraction);
  return sign * std::ldexp((1 << F::kFraction) + fraction, exponent - F::kBias - F::kFraction);
}

// x rounded to the format: to a multiple of its last place, by nearbyint's nearest-even.
template <class Half>
double rounded(double x) {
  using F = Format<Half>;
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), 1 - F::kBias);
  const double place = std::ldexp(1.0, exponent - F::kFraction);
  const double nearest = std::nearbyint(x / place) * place;
  const double overflow = std::ldexp(1.0, kTopExponent<Half> - F::kBias);
  return std::abs(nearest) >= overflow ? std::copysign(HUGE_VAL, x) : nearest;
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <class Half>
class ConvertTest : public testing::Test {};
using Halves = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(ConvertTest, Halves);

constexpr std::int64_t kPatterns = 65536;

TYPED_TEST(ConvertTest, WidensEveryPattern) {
  Guarded<TypeParam> from(kPatterns);
  for (std::int64_t i = 0; i < kPatterns; ++i) from[i].bits = static_cast<std::uint16_t>(i);
  Guarded<float> twin(kPatterns);
  reference::convert(from.data(), twin.data(), kPatterns);
  for_each_target([&] {
    Guarded<float> to(kPatterns);
    convert(from.data(), to.data(), kPatterns);
    for (std::int64_t i = 0; i < kPatterns; ++i) {
      const double expected = value_of<TypeParam>(from[i].bits);
      ASSERT_TRUE(same_number(static_cast<double>(to[i]), expected)) << std::hex << i << " gives " << to[i];
      ASSERT_TRUE(same_number(static_cast<double>(twin[i]), expected)) << std::hex << i << " gives " << twin[i];
    }
  });
}

TYPED_TEST(ConvertTest, EveryPatternComesBack) {
  Guarded<TypeParam> from(kPatterns);
  Guarded<float> wide(kPatterns);
  for (std::int64_t i = 0; i < kPatterns; ++i) from[i].bits = static_cast<std::uint16_t>(i);
  for_each_target([&] {
    Guarded<TypeParam> back(kPatterns);
    convert(from.data(), wide.data(), kPatterns);
    convert(wide.data(), back.data(), kPatterns);
    for (std::int64_t i = 0; i < kPatterns; ++i) {
      if (std::isnan(wide[i])) {
        ASSERT_TRUE(std::isnan(value_of<TypeParam>(back[i].bits))) << std::hex << i;
      } else {
        ASSERT_EQ(back[i].bits, from[i].bits) << std::hex << i;
      }
    }
  });
}

// Each finite pattern, the tie between it and the next one away from zero, and the floats beside that tie; beyond the
// largest pattern the "next one" is the power of two at which Inf begins.
template <class Half>
std::vector<float> hard_floats() {
  std::vector<float> all;
  for (std::uint16_t bits = 0; static_cast<int>(bits) < kTopExponent<Half> << Format<Half>::kFraction; ++bits) {
    const double here = value_of<Half>(bits);
    double next = value_of<Half>(static_cast<std::uint16_t>(bits + 1));
    if (std::isinf(next)) next = std::ldexp(1.0, kTopExponent<Half> - Format<Half>::kBias);
    const auto tie = static_cast<float>((here + next) / 2);
    EXPECT_EQ(static_cast<double>(tie), (here + next) / 2) << "ties are floats";
    for (const float x : {static_cast<float>(here), std::nextafter(tie, 0.0F), tie, std::nextafter(tie, HUGE_VALF)}) {
      all.push_back(x);
      all.push_back(-x);
    }
  }
  for (const float x :
       {FLT_MAX, HUGE_VALF, FLT_MIN, FLT_TRUE_MIN, 65519.0F, 65520.0F, 65536.0F, 0x1p-25F, 0x1.8p-25F}) {
    all.push_back(x);
    all.push_back(-x);
  }
  return all;
}

TYPED_TEST(ConvertTest, RoundsToNearestEven) {
  const std::vector<float> from = hard_floats<TypeParam>();
  const auto n = static_cast<std::int64_t>(from.size());
  Guarded<TypeParam> twin(n);
  reference::convert(from.data(), twin.data(), n);
  for_each_target([&] {
    Guarded<TypeParam> to(n);
    convert(from.data(), to.data(), n);
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = from[static_cast<std::size_t>(i)];
      const double expected = rounded<TypeParam>(static_cast<double>(x));
      ASSERT_TRUE(same_number(value_of<TypeParam>(to[i].bits), expected)) << x << " gives " << std::hex << to[i].bits;
      ASSERT_EQ(to[i].bits, twin[i].bits) << x;
    }
  });
}

// Every sign, payload bit, and quiet or signalling: cutting the payload must not leave Inf behind.
TYPED_TEST(ConvertTest, NanStaysNan) {
  std::vector<float> from;
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    for (int bit = 0; bit < 23; ++bit) from.push_back(std::bit_cast<float>(sign | 0x7f800000U | (1U << bit)));
    from.push_back(std::bit_cast<float>(sign | 0x7fffffffU));
  }
  const auto n = static_cast<std::int64_t>(from.size());
  for_each_target([&] {
    Guarded<TypeParam> to(n);
    convert(from.data(), to.data(), n);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(std::isnan(value_of<TypeParam>(to[i].bits))) << i;
      const auto sign = static_cast<std::uint16_t>(to[i].bits & 0x8000U);
      ASSERT_EQ(sign != 0, std::signbit(from[static_cast<std::size_t>(i)])) << i;
    }
  });
}

TYPED_TEST(ConvertTest, EveryLengthAndNoEntryMore) {
  for_each_target([] {
    for (std::int64_t n = 0; n <= 70; ++n) {
      for (const std::int64_t offset : {0, 1}) {
        Guarded<float> wide(n, 1.5F, offset);
        Guarded<TypeParam> half(n, TypeParam{}, offset);
        convert(wide.data(), half.data(), n);
        std::fill_n(wide.data(), n, 0.0F);
        convert(half.data(), wide.data(), n);
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(wide[i], 1.5F) << n << " at " << i;
        ASSERT_TRUE(wide.intact() && half.intact()) << n;
      }
    }
  });
}

}  // namespace
}  // namespace spectralclip::kernels

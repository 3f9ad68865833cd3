// SPDX-License-Identifier: Apache-2.0
// Philox4x32 under a key mixed from seed, purpose and index; its counter is (block, step). Four words a block.
#include "noise/draws.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "random/name_hash.h"
#include "random/uniform.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;  // spreads neighbours before they are mixed

std::uint64_t key_of(std::uint64_t seed, std::string_view purpose, std::int64_t index) noexcept {
  const std::uint64_t family = mixed_bits(seed + kGolden * name_hash(purpose));
  return mixed_bits(family + kGolden * (static_cast<std::uint64_t>(index) + 1));
}

constexpr std::uint32_t low_word(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high_word(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x >> 32); }

template <class T>
void fill_with_normals(Draws& draws, std::span<T> out) noexcept {
  for (T& value : out) value = static_cast<T>(draws.normal());
}

}  // namespace

Draws::Draws(std::uint64_t seed, std::string_view purpose, std::int64_t step, std::int64_t index) noexcept
    : key_(key_of(seed, purpose, index)), step_(static_cast<std::uint64_t>(step)) {}

void Draws::refill() noexcept {
  words_ = philox4x32({low_word(block_), high_word(block_), low_word(step_), high_word(step_)},
                      {low_word(key_), high_word(key_)});
  ++block_;
  used_ = 0;
}

double Draws::normal() noexcept {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2 * std::log(uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

// The high half of word * n is the answer; a low half below 2^32 mod n belongs to an answer that has one word too many.
std::int64_t Draws::below(std::int64_t n) {
  constexpr std::uint64_t kWords = std::uint64_t{1} << 32;
  SPECTRALCLIP_REQUIRE(n >= 1 && static_cast<std::uint64_t>(n) <= kWords, "below(n): n = ", n, " is not in [1, 2^32]");
  const auto range = static_cast<std::uint64_t>(n);
  std::uint64_t product = word() * range;
  if (low_word(product) < range) {
    const std::uint64_t surplus = (kWords - range) % range;
    while (low_word(product) < surplus) product = word() * range;
  }
  return static_cast<std::int64_t>(product >> 32);
}

// The sign comes from a bit that open_unit drops.
double Draws::two_sided_pareto(double scale, double alpha) noexcept {
  const std::uint64_t random = bits();
  const double magnitude = scale * std::pow(open_unit(random), -1 / alpha);
  return (random & 1U) != 0 ? magnitude : -magnitude;
}

void Draws::fill_normal(std::span<float> out) noexcept { fill_with_normals(*this, out); }
void Draws::fill_normal(std::span<double> out) noexcept { fill_with_normals(*this, out); }

void Draws::fill_permutation(std::span<std::int64_t> out) {
  std::iota(out.begin(), out.end(), std::int64_t{0});
  for (std::size_t i = out.size(); i > 1; --i) {
    std::swap(out[i - 1], out[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }
}

}  // namespace spectralclip::lab

// SPDX-License-Identifier: Apache-2.0
// Randomness by address: (seed, purpose, step, index) names a stream of numbers, and nothing else decides them. A
// Draws is a cursor in that stream: a few words on the stack, made where it is needed and thrown away; no state to
// carry, save or share. Bits repeat on one machine; logarithms and cosines may differ in the last place elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace spectralclip::lab {

class Draws {
 public:
  // index: whatever tells streams of one purpose and step apart (layer, repeat, …).
  Draws(std::uint64_t seed, std::string_view purpose, std::int64_t step = 0, std::int64_t index = 0) noexcept;

  [[nodiscard]] std::uint32_t word() noexcept {
    if (used_ == words_.size()) refill();
    return words_[used_++];
  }
  [[nodiscard]] std::uint64_t bits() noexcept {
    const std::uint64_t high = word();
    return high << 32 | word();
  }
  // In the open interval (0, 1): the middles of 2^52 equal cells, so that logarithms and powers are finite.
  [[nodiscard]] double uniform() noexcept { return open_unit(bits()); }
  // Standard normal (Box-Muller: two at a time, the second is kept).
  [[nodiscard]] double normal() noexcept;
  // 0 … n - 1, each with the same probability (Lemire 2019). n in [1, 2^32].
  [[nodiscard]] std::int64_t below(std::int64_t n);
  // Sign times Pareto: P(|x| > t) = (scale / t)^alpha for t >= scale, both signs alike.
  [[nodiscard]] double two_sided_pareto(double scale, double alpha) noexcept;

  void fill_normal(std::span<float> out) noexcept;
  void fill_normal(std::span<double> out) noexcept;
  // 0 … size - 1 in random order (Fisher-Yates).
  void fill_permutation(std::span<std::int64_t> out);

 private:
  [[nodiscard]] static double open_unit(std::uint64_t bits) noexcept {
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  }
  void refill() noexcept;

  std::uint64_t key_;
  std::uint64_t step_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace spectralclip::lab

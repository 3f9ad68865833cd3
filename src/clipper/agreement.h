// SPDX-License-Identifier: Apache-2.0
// Whether ranks that share gradients are about to do the same: a few numbers, summed before anything else, that reveal
// any difference in layers, options, states, instruction set or gradients to every rank alike. A hash h of 20 bits is
// the same on p ranks if and only if sum h = p h and sum h^2 = p h^2, both exact in float64 for p up to 4,096.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clipper/layer.h"

namespace spectralclip {

class Agreement {
 public:
  enum Subject : std::size_t { layers, machine, states, gradients, kSubjects };

  // Of the ranks of one group. refusal: why this rank cannot take part in the step, empty otherwise.
  void begin(const LayerSet& set, std::span<const Gradient> gradients, int group, const std::string& refusal);

  [[nodiscard]] std::span<double> numbers() noexcept { return numbers_; }
  // With the sums: throws RanksDisagree unless all ranks may go on. True: presence() must be summed and checked first.
  [[nodiscard]] bool check(std::span<const double> sums);

  // Per layer: ranks with a gradient, and rows or columns held. Asked for in the first step and when gradients differ.
  [[nodiscard]] std::span<double> presence() noexcept { return presence_; }
  void check_presence(const LayerSet& set, std::span<const double> sums) const;

 private:
  static constexpr std::size_t kPieces = 3;  // of a hash: 60 bits
  void put(Subject subject, std::uint64_t hash) noexcept;
  [[nodiscard]] bool same(Subject subject, std::span<const double> sums) const noexcept;

  std::array<double, 2 + 2 * kPieces * kSubjects> numbers_{};  // ranks, ranks that refuse, then h and h^2
  std::array<std::array<double, kPieces>, kSubjects> own_{};
  std::vector<double> presence_;
  std::string refusal_;
  int group_ = 0;
  double ranks_ = 0;
  bool first_ = true;
  bool types_differ_ = false;  // or who has a gradient
};

}  // namespace spectralclip

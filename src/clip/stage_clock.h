// SPDX-License-Identifier: Apache-2.0
// Seconds per stage, and only when asked for: the core reads no clock otherwise.
#pragma once

#include <array>
#include <chrono>

#include "spectralclip/report.h"

namespace spectralclip {

class StageClock {
 public:
  explicit StageClock(bool enabled) : enabled_(enabled) {
    if (enabled_) last_ = std::chrono::steady_clock::now();
  }
  // Everything since the last lap belongs to `stage`.
  void lap(Stage stage) {
    if (!enabled_) return;
    const auto now = std::chrono::steady_clock::now();
    seconds_[static_cast<std::size_t>(stage)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  [[nodiscard]] const std::array<double, kStageCount>& seconds() const noexcept { return seconds_; }

 private:
  bool enabled_;
  std::chrono::steady_clock::time_point last_;
  std::array<double, kStageCount> seconds_{};
};

}  // namespace spectralclip

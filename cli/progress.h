// SPDX-License-Identifier: Apache-2.0
// How far a long work is: one line that is drawn again on a terminal, plain lines now and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "engine/drive.h"

namespace spectralclip::cli {

// "1 h 02 min", "41 s", "0.8 s".
[[nodiscard]] std::string duration_text(double seconds);

class ProgressLine {
 public:
  explicit ProgressLine(std::string label, bool quiet = false);
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // detail: what stands behind the count, e.g. "loss 0.012, 4310 steps/s". seconds: of this session; begun: what was
  // done before it.
  void show(std::int64_t done, std::int64_t total, const std::string& detail, double seconds, std::int64_t begun = 0);

 private:
  void draw(const std::string& line);

  std::string label_;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  double last_plain_ = -1;  // seconds of the last plain line
};

class RunProgress final : public lab::ProgressSink {
 public:
  RunProgress(std::string label, bool quiet) : line_(std::move(label), quiet) {}
  void update(const lab::Progress& progress) override;

 private:
  ProgressLine line_;
};

}  // namespace spectralclip::cli

// SPDX-License-Identifier: Apache-2.0
// How far a long work is: one line that is drawn again on a terminal, plain lines now and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "engine/drive.h"

namespace spectralclip::cli {

// "1 h 02 min", "41 s", "0.8 s".
[[nodiscard]] std::string duration_text(double seconds);

// Whether a stream is a terminal that understands more than plain text; and whether colours are wanted there
// (NO_COLOR, TERM=dumb).
[[nodiscard]] bool is_terminal(int descriptor);
[[nodiscard]] bool wants_colour(int descriptor);

// The parts of a progress line that fit a width, most important last: the numbers stay, the label is cut, the bar goes.
[[nodiscard]] std::string fitted(const std::string& label, const std::string& bar, const std::string& tail,
                                 std::size_t width);

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
  void draw(const std::string& bar, const std::string& tail);

  std::string label_;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  std::int64_t last_done_ = -1;
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

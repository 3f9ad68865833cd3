// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace spectralclip::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr double kPlainSeconds = 10;  // between plain lines

std::string bar(double share) {
  const int full = static_cast<int>(std::lround(share * kBarWidth));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kBarWidth - full), '-') + "]";
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 119.5) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<long>(std::lround(seconds / 60));
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

bool is_terminal(int descriptor) {
  const char* const kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && !(kind != nullptr && std::string_view(kind) == "dumb");
}

bool wants_colour(int descriptor) {
  const char* const no_colour = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  return is_terminal(descriptor) && (no_colour == nullptr || *no_colour == '\0');
}

std::string fitted(const std::string& label, const std::string& bar, const std::string& tail, std::size_t width) {
  if (label.size() + bar.size() + tail.size() + 2 <= width) return label + " " + bar + " " + tail;
  if (label.size() + tail.size() + 1 <= width) return label + " " + tail;
  constexpr std::size_t kShortest = 8;  // of a label that is worth its room
  if (tail.size() + kShortest + 1 <= width) return label.substr(0, width - tail.size() - 2) + "~ " + tail;
  return tail.substr(0, width);
}

ProgressLine::ProgressLine(std::string label, bool quiet)
    : label_(std::move(label)), quiet_(quiet), terminal_(is_terminal(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressLine::show(std::int64_t done, std::int64_t total, const std::string& detail, double seconds,
                        std::int64_t begun) {
  if (quiet_) return;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const double rate = static_cast<double>(done - begun) / std::max(seconds, 1e-9);
  const std::string left = done < total && done > begun
                               ? ", " + duration_text(static_cast<double>(total - done) / rate) + " left"
                               : std::string();
  const std::string tail = fmt::format("{:3.0f} % {}/{} {}{}", 100 * share, done, total, detail, left);
  if (terminal_) return draw(bar(share), tail);
  const bool soon = last_plain_ >= 0 && seconds - last_plain_ < kPlainSeconds;
  if (done == last_done_ || (soon && done < total)) return;
  last_plain_ = seconds;
  last_done_ = done;
  std::fprintf(stderr, "%s: %s\n", label_.c_str(), tail.c_str());
}

void ProgressLine::draw(const std::string& bar, const std::string& tail) {
  std::fprintf(stderr, "\r%s\x1b[K", fitted(label_, bar, tail, terminal_width() - 1).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void RunProgress::update(const lab::Progress& p) {
  const double rate = static_cast<double>(p.step - p.resumed_at) / std::max(p.session_seconds, 1e-9);
  line_.show(p.step, p.steps, fmt::format("{} {:.4g}, {:.4g} steps/s", p.headline, p.value, rate), p.session_seconds,
             p.resumed_at);
}

}  // namespace spectralclip::cli

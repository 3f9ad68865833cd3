// SPDX-License-Identifier: Apache-2.0
// Bars in a terminal: eighth blocks where the locale is UTF-8, '#' elsewhere; colour only when asked for.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace text_chart {

struct Style {
  bool utf8 = false;
  bool color = false;
};

// What the terminal behind stdout can show; --no-color and NO_COLOR (no-color.org) switch colour off.
inline Style terminal_style(bool no_color) {
  Style style;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale(value);
    style.utf8 = locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    break;
  }
  style.color = !no_color && std::getenv("NO_COLOR") == nullptr && isatty(STDOUT_FILENO) == 1;
  return style;
}

// share in [0, 1] of `width` cells, padded with blanks to `width`.
inline std::string bar(double share, int width, const Style& style) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 8 * width));
  const int rest = style.utf8 ? eighths % 8 : 0;
  const int full = style.utf8 ? eighths / 8 : (eighths + 4) / 8;
  std::string text;
  for (int i = 0; i < full; ++i) text += style.utf8 ? "█" : "#";
  text += kEighths[rest];
  return text + std::string(static_cast<std::size_t>(width - full - (rest > 0 ? 1 : 0)), ' ');
}

struct Column {
  std::string title;          // up to 20 characters of ASCII
  std::vector<double> sigma;  // largest first
  int ansi_color = 0;         // 31 red, 32 green, …
};

// One row per index, one bar per column, lengths logarithmic from `low` to the largest value. 4 columns: 96 characters.
inline void print_bars(const std::vector<Column>& columns, double low, const Style& style) {
  constexpr int kBar = 14;
  double high = low;
  for (const Column& column : columns)
    high = std::max(high, *std::max_element(column.sigma.begin(), column.sigma.end()));
  std::printf("    ");
  for (const Column& column : columns) std::printf("%-23s", column.title.c_str());
  std::printf("\n");
  for (std::size_t i = 0; i < columns.front().sigma.size(); ++i) {
    std::printf("%3zu ", i + 1);
    for (const Column& column : columns) {
      const double sigma = column.sigma[i];
      const double share = sigma > low ? std::log(sigma / low) / std::log(high / low) : 0;
      const std::string drawn = bar(share, kBar, style);
      std::printf("%7.3f ", sigma);
      if (style.color) std::printf("\033[%dm%s\033[0m ", column.ansi_color, drawn.c_str());
      if (!style.color) std::printf("%s ", drawn.c_str());
    }
    std::printf("\n");
  }
}

}  // namespace text_chart

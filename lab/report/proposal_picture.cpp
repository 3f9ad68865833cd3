// SPDX-License-Identifier: Apache-2.0
// An SVG by hand: panels below each other, so that a phone scrolls one way only.
#include <algorithm>
#include <cmath>

#include "report/proposal.h"

namespace spectralclip::lab::report {
namespace {

constexpr double kWidth = 760, kPanel = 150, kLeft = 64, kRight = 12, kTop = 58, kTitle = 20, kBottom = 22;
constexpr std::size_t kMostPoints = 2000;  // a layer: more than the picture has columns

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return safe;
}

// Steps to pixels, logarithms of sigma to pixels.
struct Axes {
  double top, first, last, low, high;  // of the panel; least and largest step; least and largest log10
  [[nodiscard]] double x(double step) const {
    const double span = last > first ? (step - first) / (last - first) : 0.5;
    return kLeft + span * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    const double span = (std::log10(value) - low) / (high - low);
    return top + kTitle + (1 - std::clamp(span, 0.0, 1.0)) * (kPanel - kTitle - kBottom);
  }
};

Axes axes_of(const ProposedLayer& layer, double top) {
  double low = INFINITY, high = -INFINITY;
  const auto include = [&](double value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    low = std::min(low, std::log10(value));
    high = std::max(high, std::log10(value));
  };
  for (const double sigma : layer.sigma) include(sigma);
  include(layer.proposal.tau);
  if (!(low <= high)) low = -1, high = 1;  // all zero
  const double room = std::max(0.05 * (high - low), 0.02);
  return {top, layer.steps.front(), layer.steps.back(), low - room, high + room};
}

std::string points_of(const ProposedLayer& layer, const Axes& axes) {
  std::string points;
  const std::size_t every = layer.sigma.size() / kMostPoints + 1;
  for (std::size_t i = 0; i < layer.sigma.size(); i += every) {
    // Of the steps that share a dot the largest: spikes are what this is about.
    const auto end = layer.sigma.begin() + static_cast<std::ptrdiff_t>(std::min(i + every, layer.sigma.size()));
    const double largest = *std::max_element(layer.sigma.begin() + static_cast<std::ptrdiff_t>(i), end);
    if (largest <= 0) continue;
    points += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.4\"{}/>", axes.x(layer.steps[i]), axes.y(largest),
                          largest > layer.proposal.tau ? " class=\"above\"" : "");
  }
  return points;
}

std::string line_at(const Axes& axes, double value, const char* kind) {
  const double span = std::log10(value);
  if (!(span >= axes.low && span <= axes.high)) return {};
  return fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>", kLeft, kWidth - kRight,
                     axes.y(value), axes.y(value), kind);
}

std::string interval_of(const ThresholdProposal& p, const Axes& axes) {
  if (!(p.low > 0)) return {};
  const double top = std::isfinite(p.high) ? axes.y(p.high) : axes.top + kTitle;
  return fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" class=\"interval\"/>", kLeft, top,
                     kWidth - kLeft - kRight, std::max(0.5, axes.y(p.low) - top));
}

std::string ticks_of(const Axes& axes) {
  const double bottom = axes.top + kPanel - kBottom;
  std::string text;
  for (const double at : {axes.low, (axes.low + axes.high) / 2, axes.high}) {
    text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"tick end\">{:.3g}</text>", kLeft - 6,
                        axes.y(std::pow(10, at)) + 3, std::pow(10, at));
  }
  text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"tick\">step {:g}</text>", kLeft, bottom + 13, axes.first);
  text += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"tick end\">{:g}</text>", kWidth - kRight, bottom + 13,
                      axes.last);
  return text + fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" class=\"frame\"/>", kLeft,
                            axes.top + kTitle, kWidth - kLeft - kRight, kPanel - kTitle - kBottom);
}

std::string panel(const ProposedLayer& layer, const RunProposal& all, double top) {
  const Axes axes = axes_of(layer, top);
  const ThresholdProposal& p = layer.proposal;
  return fmt::format(
             "<text x=\"{}\" y=\"{:.1f}\"><tspan class=\"name\">{}</tspan>  tau {:.4g}, clips {:.2g}% of {} "
             "steps; early {:.4g}, late {:.4g}; the one number clips {:.2g}%</text>",
             kLeft, top + kTitle - 6, escaped(layer.name), p.tau, 100 * p.share, p.steps, p.early, p.late,
             100 * layer.share_at_model) +
         interval_of(p, axes) + points_of(layer, axes) + line_at(axes, p.tau, "tau") +
         line_at(axes, all.model.tau, "model") + ticks_of(axes) + "\n";
}

constexpr const char* kStyle =
    "<style>text{font:12px "
    "system-ui,sans-serif;fill:#1a1a1a}.head{font-size:15px;font-weight:600}.name{font-weight:600}"
    ".tick{font-size:10px;fill:#555}.end{text-anchor:end}circle{fill:#3567a8;fill-opacity:.55}"
    "circle.above{fill:#c0392b;fill-opacity:.9}.tau{stroke:#1a1a1a;stroke-width:1.6}"
    ".model{stroke:#1a1a1a;stroke-dasharray:5 4}.interval{fill:#1a1a1a;fill-opacity:.08}"
    ".frame{fill:none;stroke:#bbb}</style>";

}  // namespace

std::string proposal_picture(const RunProposal& proposal, double share, const std::string& title) {
  const double height = kTop + kPanel * static_cast<double>(proposal.layers.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\">\n{}"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
      "<text x=\"12\" y=\"22\" class=\"head\">{}: thresholds that would have clipped {:.3g}% of {} steps</text>"
      "<text x=\"12\" y=\"42\">sigma_max of each layer; line and band: its own tau with 95 %; dashed: one number for "
      "the "
      "model, {:.4g}</text>\n",
      kWidth, height, kWidth, height, kStyle, escaped(title), 100 * share, proposal.model.steps, proposal.model.tau);
  double top = kTop;
  for (const ProposedLayer& layer : proposal.layers) {
    svg += panel(layer, proposal, top);
    top += kPanel;
  }
  return svg + "</svg>\n";
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Order statistics. With n sorted values and k = floor(share n), tau is the largest value but k: at most k are above
// it.
#include "spectralclip/proposal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "constants.h"
#include "require.h"

namespace spectralclip {
namespace {

constexpr double kTail = 0.025;  // on either side of the interval

// floor(share n), where share n that is an integer but for rounding counts as one: 0.05 * 20 steps is one step.
std::size_t most_above(double share, std::size_t n) noexcept {
  const double exact = share * static_cast<double>(n);
  const double whole = std::round(exact);
  const bool is_whole = std::abs(exact - whole) <= 4 * kEps * std::max(1.0, whole);
  return static_cast<std::size_t>(is_whole ? whole : std::floor(exact));
}

double quantile_above(const std::vector<double>& sorted, double share) noexcept {
  return sorted.empty() ? kNaN : sorted[sorted.size() - 1 - most_above(share, sorted.size())];
}

double log_binomial(double n, double k, double log_p, double log_q) noexcept {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * log_p + (n - k) * log_q;
}

struct Counts {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
// How many of n steps lie above the quantile, but for kTail on either side: Binomial(n, share). O(n).
Counts counts_above(std::size_t n, double share) noexcept {
  const auto count = static_cast<double>(n);
  const double log_p = std::log(share), log_q = std::log1p(-share);
  Counts counts{.least = 0, .most = static_cast<std::int64_t>(n)};
  double below = 0;
  bool found_least = false;
  for (std::int64_t k = 0; k <= static_cast<std::int64_t>(n); ++k) {
    below += std::exp(log_binomial(count, static_cast<double>(k), log_p, log_q));
    if (!found_least && below > kTail) counts.least = k, found_least = true;
    if (below >= 1 - kTail) {
      counts.most = k;
      break;
    }
  }
  return counts;
}

// P(sorted[n - 1 - most] <= quantile < sorted[n - least]) >= 95 %.
void set_interval(ThresholdProposal& proposal, const std::vector<double>& sorted, double share) noexcept {
  const auto n = static_cast<std::int64_t>(sorted.size());
  const Counts above = share > 0 ? counts_above(sorted.size(), share) : Counts{};
  proposal.low = above.most >= n ? 0.0 : sorted[static_cast<std::size_t>(n - 1 - above.most)];
  proposal.high = above.least == 0 ? kInfinity : sorted[static_cast<std::size_t>(n - above.least)];
}

std::vector<double> sorted_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

ThresholdProposal propose_threshold(std::span<const double> sigma_max, double share) {
  SPECTRALCLIP_REQUIRE(share >= 0 && share < 1, "share = ", share, " must lie in [0, 1)");
  std::vector<double> finite;
  std::copy_if(sigma_max.begin(), sigma_max.end(), std::back_inserter(finite),
               [](double s) { return std::isfinite(s); });
  ThresholdProposal proposal;
  proposal.steps = static_cast<std::int64_t>(finite.size());
  if (finite.empty()) {
    proposal.tau = proposal.share = proposal.low = proposal.high = proposal.early = proposal.late = kNaN;
    return proposal;
  }
  const std::span<const double> all = finite;
  const std::vector<double> sorted = sorted_of(all);
  proposal.tau = quantile_above(sorted, share);
  const auto above = sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), proposal.tau);
  proposal.share = static_cast<double>(above) / static_cast<double>(sorted.size());
  set_interval(proposal, sorted, share);
  const std::size_t half = (all.size() + 1) / 2;
  proposal.early = quantile_above(sorted_of(all.first(half)), share);
  proposal.late = quantile_above(sorted_of(all.last(half)), share);
  return proposal;
}

}  // namespace spectralclip

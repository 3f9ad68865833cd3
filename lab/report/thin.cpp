// SPDX-License-Identifier: Apache-2.0
#include "report/thin.h"

#include <algorithm>
#include <cmath>

namespace spectralclip::lab::report {
namespace {

std::vector<double> distinct_steps(std::span<const MetricSeries* const> runs) {
  std::vector<double> steps;
  for (const MetricSeries* run : runs) steps.insert(steps.end(), run->step.begin(), run->step.end());
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

// Which bucket a step falls into.
class Buckets {
 public:
  Buckets(std::vector<double> steps, Spacing spacing, std::size_t limit)
      : steps_(std::move(steps)), spacing_(spacing), limit_(limit) {}

  [[nodiscard]] std::size_t count() const { return std::min(steps_.size(), limit_); }

  [[nodiscard]] std::size_t of(double step) const {
    if (steps_.size() <= limit_)
      return static_cast<std::size_t>(std::lower_bound(steps_.begin(), steps_.end(), step) - steps_.begin());
    const double first = position(steps_.front()), last = position(steps_.back());
    const double share = (position(step) - first) / (last - first);
    return std::min(limit_ - 1, static_cast<std::size_t>(share * static_cast<double>(limit_)));
  }

 private:
  [[nodiscard]] double position(double step) const {
    return spacing_ == Spacing::logarithmic ? std::log(std::max(step, 1.0)) : step;
  }

  std::vector<double> steps_;
  Spacing spacing_;
  std::size_t limit_;
};

struct Sum {
  double step = 0, seconds = 0, value = 0;
  int count = 0;
};

std::vector<Sum> sums_of(const MetricSeries& run, const Buckets& buckets) {
  std::vector<Sum> sums(buckets.count());
  for (std::size_t i = 0; i < run.step.size(); ++i) {
    if (!std::isfinite(run.value[i])) continue;
    Sum& sum = sums[buckets.of(run.step[i])];
    sum.step += run.step[i];
    sum.seconds += run.seconds[i];
    sum.value += run.value[i];
    ++sum.count;
  }
  return sums;
}

void append_point(SeedCurve& curve, const std::vector<Sum>& seeds) {
  const double n = static_cast<double>(seeds.size());
  double step = 0, seconds = 0, mean = 0, square = 0;
  double low = seeds.front().value / seeds.front().count, high = low;
  for (const Sum& seed : seeds) {
    const double value = seed.value / seed.count;
    step += seed.step / seed.count / n;
    seconds += seed.seconds / seed.count / n;
    mean += value / n;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  for (const Sum& seed : seeds) square += std::pow(seed.value / seed.count - mean, 2);
  curve.step.push_back(step);
  curve.seconds.push_back(seconds);
  curve.mean.push_back(mean);
  curve.deviation.push_back(seeds.size() > 1 ? std::sqrt(square / (n - 1)) : 0);
  curve.low.push_back(low);
  curve.high.push_back(high);
  curve.seeds.push_back(static_cast<int>(seeds.size()));
}

}  // namespace

SeedCurve over_seeds(std::span<const MetricSeries* const> runs, Spacing spacing, std::size_t limit) {
  const Buckets buckets(distinct_steps(runs), spacing, limit);
  std::vector<std::vector<Sum>> by_run;
  for (const MetricSeries* run : runs) by_run.push_back(sums_of(*run, buckets));
  SeedCurve curve;
  for (std::size_t bucket = 0; bucket < buckets.count(); ++bucket) {
    std::vector<Sum> seeds;
    for (const auto& sums : by_run)
      if (sums[bucket].count > 0) seeds.push_back(sums[bucket]);
    if (!seeds.empty()) append_point(curve, seeds);
  }
  return curve;
}

std::vector<std::size_t> envelope(std::span<const double> values, std::size_t limit) {
  if (values.size() <= limit) return evenly(values.size(), values.size());
  const std::size_t stretches = std::max<std::size_t>(1, limit / 2);
  std::vector<std::size_t> kept;
  for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
    const std::size_t begin = stretch * values.size() / stretches, end = (stretch + 1) * values.size() / stretches;
    std::size_t lowest = begin, highest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (values[i] < values[lowest] || std::isnan(values[lowest])) lowest = i;
      if (values[i] > values[highest] || std::isnan(values[highest])) highest = i;
    }
    kept.push_back(std::min(lowest, highest));
    if (lowest != highest) kept.push_back(std::max(lowest, highest));
  }
  return kept;
}

std::vector<std::size_t> evenly(std::size_t count, std::size_t limit) {
  const std::size_t kept = std::min(count, limit);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < kept; ++i) indices.push_back(kept == 1 ? count - 1 : i * (count - 1) / (kept - 1));
  return indices;
}

}  // namespace spectralclip::lab::report

// SPDX-License-Identifier: Apache-2.0
// Clippers over the whole set: what each is set up to do, how many directions it must clip where, and the proof that it
// did, against the known triplets of gradients.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "findings.h"
#include "layer_set.h"
#include "spectralclip/spectralclip.h"
#include "timing.h"

namespace spectralclip::bench {

enum class Task : std::uint8_t {
  quiet,    // EMA with slack: nothing is above
  mix,      // EMA: the loud layers, 45 %, have one to three values above it
  always,   // ten directions of every layer, rank fixed at ten, to an error no worse than that of `sketched`
  precise,  // the same to the default tolerance
  sketched  // the same from a cold start each step: the paper's Algorithm 2
};
inline constexpr std::int64_t kFixedRank = 10;
inline constexpr double kAlwaysTolerance = 3e-3;  // the level of Algorithm 2 on these gradients

inline const char* to_string(Task task) {
  switch (task) {
    case Task::quiet:
      return "tracked, quiet step";
    case Task::mix:
      return "tracked, 45 % mix";
    case Task::always:
      return "tracked, always, r = 10, tolerance 3e-3";
    case Task::precise:
      return "tracked, always, r = 10, default tolerance";
    case Task::sketched:
      return "sketched, always, r = 10";
  }
  return "unknown";
}

inline bool is_fixed(Task task) { return task == Task::always || task == Task::precise || task == Task::sketched; }

inline std::int64_t expected_clipped(Task task, const Layer& layer, std::size_t variant) {
  if (is_fixed(task)) return kFixedRank;
  return task == Task::mix && layer.loud[variant] ? layer.directions : 0;
}

// tau half way between the tenth and eleventh value: ten are above it in loud and quiet steps alike.
inline Rule fixed_rank_rule(const Layer& layer, Task task) {
  Rule rule;
  rule.name_pattern = layer.name;
  rule.threshold =
      ThresholdOptions{.kind = ThresholdKind::constant,
                       .tau = layer.scale * (relative_sigma(kFixedRank - 1) + relative_sigma(kFixedRank)) / 2};
  rule.clip = ClipOptions{.method = task == Task::sketched ? Method::sketched : Method::tracked, .rank = kFixedRank};
  if (task == Task::always) rule.clip->tolerance = kAlwaysTolerance;
  return rule;
}

class SetClipper {
 public:
  SetClipper(const LayerSet& set, Task task) : set_(set), task_(task), clipper_(make_clipper(set, task)) {
    for (const Layer& layer : set.layers) gradients_.push_back({.data = layer.work[0].data()});
  }

  StepReport step(Executor& executor) { return clipper_.step(gradients_, executor); }
  [[nodiscard]] Task task() const noexcept { return task_; }
  [[nodiscard]] const Clipper& clipper() const noexcept { return clipper_; }

 private:
  static Clipper make_clipper(const LayerSet& set, Task task) {
    ClipperOptions options;
    if (task == Task::quiet) options.threshold.slack = 2 * kLift;  // above the loudest step after the quietest
    std::vector<Parameter> parameters;
    for (const Layer& layer : set.layers) {
      parameters.push_back({layer.name, {layer.work[0].rows(), layer.work[0].cols()}});
      if (is_fixed(task)) {
        options.rules.push_back(fixed_rank_rule(layer, task));
      }
    }
    return Clipper(std::move(parameters), std::move(options));
  }

  const LayerSet& set_;
  Task task_;
  std::vector<Gradient> gradients_;
  Clipper clipper_;
};

// Error of the removed part, ||(G - clipped) - sum (sigma_i - tau) u_i v_i^T||_F / ||sum||_F.
inline double removed_part_error(const Layer& layer, std::size_t variant, std::int64_t clipped, double tau) {
  const RowMatrix expected = layer.factors[variant].removed_part(clipped, tau);
  const RowMatrix removed = layer.master[variant].map() - layer.work[0].map();
  return static_cast<double>((removed - expected).norm()) / static_cast<double>(expected.norm());
}

struct Verification {
  std::vector<double> errors;  // of the removed parts, one per clipped layer
  double passes = 0;           // reads of the set per step, averaged over entries
  std::int64_t layers_clipped = 0;
  std::vector<std::string> failures;
};

// A fixed rank that is used up says so unless no eleventh value can be above tau; all else has to settle.
inline bool is_expected(Task task, ClipStatus status) {
  return status == ClipStatus::ok || (is_fixed(task) && status == ClipStatus::rank_exhausted);
}

// Checks one step's report and gradients against what the construction says; adds to `into`.
inline void verify_layer(Task task, const Layer& layer, std::size_t variant, const LayerReport& report,
                         Verification& into) {
  const std::int64_t expected = expected_clipped(task, layer, variant);
  const ClipReport& clip = report.clip;
  if (report.treatment != Treatment::spectral || !is_expected(task, clip.status) || clip.clipped != expected) {
    into.failures.push_back(std::string(to_string(task)) + ", " + layer.name + ": " + std::to_string(clip.clipped) +
                            " clipped instead of " + std::to_string(expected) + ", status " +
                            spectralclip::to_string(clip.status));
  } else if (expected > 0) {
    into.errors.push_back(removed_part_error(layer, variant, expected, clip.tau));
  } else if (std::memcmp(layer.work[0].data(), layer.master[variant].data(), layer.work[0].bytes()) != 0) {
    into.failures.push_back(std::string(to_string(task)) + ", " + layer.name + ": written though nothing was clipped");
  }
}

inline void verify_step(const LayerSet& set, Task task, std::int64_t step, const StepReport& report, Executor& executor,
                        Verification& into) {
  const auto variant = static_cast<std::size_t>(step % kVariants);
  std::vector<Verification> parts(set.layers.size());
  auto check = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    verify_layer(task, set.layers[at], variant, report.layers[at], parts[at]);
  };
  executor.run(static_cast<std::int64_t>(set.layers.size()), check);
  double reads = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    into.errors.insert(into.errors.end(), parts[i].errors.begin(), parts[i].errors.end());
    into.failures.insert(into.failures.end(), parts[i].failures.begin(), parts[i].failures.end());
    reads += report.layers[i].clip.passes * static_cast<double>(set.layers[i].work[0].entries());
  }
  into.passes += reads / static_cast<double>(set.entries()) / kVariants;
  into.layers_clipped += report.layers_clipped;
}

}  // namespace spectralclip::bench

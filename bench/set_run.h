// SPDX-License-Identifier: Apache-2.0
// The interleaved run over the whole set: every contender once per round, in an order rotated from round to round, its
// input restored outside the clock; ratios are taken within a round.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bandwidth.h"
#include "contenders.h"
#include "findings.h"
#include "yardstick.h"

namespace spectralclip::bench {

inline constexpr std::int64_t kWarmupSteps =
    8 * kVariants;  // widths settle after 16 calm ones; the last kVariants are verified
inline constexpr Task kTasks[] = {Task::quiet, Task::mix, Task::always, Task::precise, Task::sketched};

// A thread count with its pool, its yardstick and its clippers, each with a state of its own.
struct Team {
  Team(const LayerSet& set, int threads_) : threads(threads_), pool(threads_), norm_clip(set), series(1) {
    series[0] = {"norm clipping (yardstick)", threads};
    for (const Task task : kTasks) {
      clippers.push_back(std::make_unique<SetClipper>(set, task));
      series.push_back({to_string(task), threads});
    }
  }
  void run(std::size_t contender) {
    if (contender == 0) {
      norm_clip.run(pool);
    } else {
      clippers[contender - 1]->step(pool);
    }
  }

  int threads;
  ThreadPool pool;
  NormClip norm_clip;
  std::vector<std::unique_ptr<SetClipper>> clippers;
  std::vector<Series> series;               // [0] is the yardstick, [1 + i] clippers[i]
  std::vector<Verification> verifications;  // one per clipper
};

// The norm against a sum in double (the kernel adds up to 4096 squares in float: sqrt(4096) eps at most in practice),
// and the scaled gradients against the master, entry by entry.
inline void verify_yardstick(const LayerSet& set, Team& team, Executor& all, Results& results) {
  restore(set, 0, all);
  const double norm = team.norm_clip.run(team.pool);
  const double expected = reference_norm(set, 0, all);
  const double tolerance = 64 * static_cast<double>(std::numeric_limits<float>::epsilon());
  results.require(std::abs(norm - expected) <= tolerance * expected, "yardstick: norm differs from the one in double");
  for (const Layer& layer : set.layers) {
    const RowMatrix wanted = layer.master[0].map() * static_cast<float>(NormClip::kShare);
    results.require(wanted == layer.work[0].map(), "yardstick: " + layer.name + " is not scaled as it should be");
  }
}

inline void warm_up(const LayerSet& set, Team& team, Executor& all, Results& results) {
  verify_yardstick(set, team, all, results);
  for (auto& clipper : team.clippers) {
    Verification verification;
    for (std::int64_t step = 0; step < kWarmupSteps; ++step) {
      restore(set, step, all);
      const StepReport report = clipper->step(team.pool);
      if (step < kWarmupSteps - kVariants) continue;
      verify_step(set, clipper->task(), step, report, all, verification);
    }
    for (const std::string& failure : verification.failures) results.require(false, failure);
    team.verifications.push_back(std::move(verification));
  }
}

inline void run_rounds(const LayerSet& set, std::vector<std::unique_ptr<Team>>& teams, int rounds, Executor& all) {
  const std::size_t per_team = 1 + std::size(kTasks);
  const std::size_t count = teams.size() * per_team;
  for (int round = 0; round < rounds; ++round) {
    show_progress("set: round " + std::to_string(round + 1) + " of " + std::to_string(rounds));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round)) % count;
      Team& team = *teams[turn / per_team];
      const std::size_t contender = turn % per_team;
      restore(set, kWarmupSteps + round, all);
      team.series[contender].ms.push_back(milliseconds([&] { team.run(contender); }));
    }
  }
}

inline std::string times_text(const std::vector<double>& ms) {
  return number(median(ms)) + " ms, MAD " + number(median_deviation(ms));
}

inline void report_errors(const Team& team, std::size_t i, Results& results) {
  const Verification& verification = team.verifications[i];
  if (verification.errors.empty()) return;
  const std::string what = std::string(to_string(team.clippers[i]->task())) + ": error of the removed part, ";
  const std::string note = "of " + std::to_string(verification.errors.size()) + " clips";
  const Task task = team.clippers[i]->task();
  Finding middle{what + "median", team.threads, median(verification.errors), "", {}, note};
  Finding tail{what + "90 %", team.threads, quantile(verification.errors, 0.9), "", {}, note};
  if (task == Task::mix || task == Task::precise) middle.bar = Bar{1e-4}, tail.bar = Bar{1e-3};
  if (task == Task::always) {  // no worse than Algorithm 2 in the same run
    const std::vector<double>& sketched = team.verifications.back().errors;
    middle.bar = Bar{median(sketched)}, tail.bar = Bar{quantile(sketched, 0.9)};
  }
  results.add(middle);
  results.add(tail);
}

inline void report_memory(const LayerSet& set, const Team& team, std::size_t i, Results& results) {
  const Clipper& clipper = team.clippers[i]->clipper();
  const std::string name = to_string(team.clippers[i]->task());
  results.add({name + ": state, share of the gradients' bytes", team.threads,
               100 * static_cast<double>(clipper.state_bytes()) / set.bytes(), "%", Bar{2}});
  results.add({name + ": work memory per thread", team.threads,
               static_cast<double>(clipper.workspace_bytes()) / team.threads / (1 << 20), "MiB", Bar{16}});
}

inline void report_team(const LayerSet& set, const Team& team, const Bandwidth& peak, Results& results) {
  static const Bar kBars[] = {{1.1, 0.9}, {1.5, 1.2}, {3.5, 2.5}};
  const std::vector<double>& yardstick = team.series[0].ms;
  const double gbs = 3 * set.bytes() / median(yardstick) * 1e-6;
  results.add({"plain read of the set", team.threads, peak.read_gbs, "GB/s", {}, "best of 5"});
  results.add({"plain copy of the set", team.threads, peak.copy_gbs, "GB/s", {}, "best of 5, read + written"});
  results.add({team.series[0].name,
               team.threads,
               median(yardstick),
               "ms",
               {},
               "MAD " + number(median_deviation(yardstick)) + ", " + number(gbs) + " GB/s read twice + written once"});
  for (std::size_t i = 0; i < team.clippers.size(); ++i) {
    const std::vector<double>& ms = team.series[i + 1].ms;
    Finding finding{team.series[i + 1].name, team.threads, paired_ratio(ms, yardstick), "x yardstick"};
    if (i < std::size(kBars)) finding.bar = kBars[i];
    finding.note = times_text(ms) + ", ratio of medians " + number(median(ms) / median(yardstick)) + ", " +
                   number(team.verifications[i].passes) + " passes, " +
                   number(static_cast<double>(team.verifications[i].layers_clipped) / kVariants) + " layers clipped";
    results.add(finding);
  }
}

// Two threads against one, contender by contender, within the same rounds.
inline void report_scaling(const Team& one, const Team& many, Results& results) {
  for (std::size_t i = 0; i < one.series.size(); ++i) {
    Finding finding{one.series[i].name + ": speed-up over " + std::to_string(one.threads) + " thread", many.threads,
                    paired_ratio(one.series[i].ms, many.series[i].ms), "x"};
    const bool has_bar = i > 0 && many.clippers[i - 1]->task() != Task::sketched;
    if (has_bar && one.threads == 1 && many.threads == 2) finding.bar = Bar{.limit = 1.7, .at_least = true};
    results.add(finding);
  }
}

inline void run_set(const LayerSet& set, const std::vector<int>& threads, int rounds, Executor& all, Results& results) {
  std::vector<std::unique_ptr<Team>> teams;
  for (const int count : threads) {
    show_progress("set: verification, " + std::to_string(count) + " thread(s)");
    teams.push_back(std::make_unique<Team>(set, count));
    warm_up(set, *teams.back(), all, results);
  }
  run_rounds(set, teams, rounds, all);
  for (const auto& team : teams) {
    report_team(set, *team, measure_bandwidth(set, team->pool), results);
    results.series.insert(results.series.end(), team->series.begin(), team->series.end());
  }
  if (teams.size() > 1) report_scaling(*teams.front(), *teams.back(), results);
  const Team& last = *teams.back();  // errors and state are the same bits for every number of threads
  for (std::size_t i = 0; i < last.clippers.size(); ++i) report_errors(last, i, results);
  for (std::size_t i = 0; i < last.clippers.size(); ++i) report_memory(set, last, i, results);
}

}  // namespace spectralclip::bench

// SPDX-License-Identifier: Apache-2.0
// What a sweep is: TOML text to a plain struct and back.
//
//   summary = "one line"
//   preset = "mlp-heavy-tail-sgdm-norm"   # what a trial runs
//   [set]                                 # overrides of that preset
//   "train.steps" = 10000
//   [sweep]
//   search = "global"                     # grid, random, global
//   trials = 300                          # grid: the product of the points, may be left out
//   metric = "train_loss"                 # of the results …
//   better = "smaller"                    # … and which way it is better: smaller, larger
//   seed = 1                              # of the search, and the first of every trial
//   seeds = 3                             # runs of a trial: seeds 1, 2, 3; the mean of their metric decides (1)
//   best_seeds = 3                        # the best is run again over seeds that no trial saw: 4, 5, 6; 0: not at all
//   ahead = 4                             # global: a trial is proposed from what all but the last 4 before it gave
//   [space."optimizer.lr"]
//   low = 1e-4
//   high = 1e-1
//   scale = "log"                         # log, linear
//   points = 12                           # grid only
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sweep/search.h"

namespace spectralclip::lab {

struct SweepDefinition {
  std::string name = {};  // of the preset or file
  std::string summary = {};
  std::string preset = {};
  std::map<std::string, std::string> set = {};  // key -> value, as text
  SearchKind search = SearchKind::global;
  std::int64_t trials = 0;
  std::string metric = "train_loss";
  bool larger_is_better = false;
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;
  std::int64_t best_seeds = 3;
  std::int64_t ahead = 4;  // fixed, so that the search is the same whatever number of jobs runs it
  SearchSpace space = {};  // in the order of the text
};

// `name` is the definition's unless the text has one. Throws InvalidArgument: broken TOML with its line, an unknown key
// with the nearest known one, a value with what is allowed. The result is valid.
[[nodiscard]] SweepDefinition parse_sweep(std::string_view text, std::string_view name);
// parse_sweep(to_toml(d)) equals d.
[[nodiscard]] std::string to_toml(const SweepDefinition& definition);
void validate(const SweepDefinition& definition);

// `key: "old" before, "new" now`, or nothing. More trials than before are no difference; the summary line is none
// either.
[[nodiscard]] std::optional<std::string> first_difference(const SweepDefinition& before, const SweepDefinition& now);

}  // namespace spectralclip::lab

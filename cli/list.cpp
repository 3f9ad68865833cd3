// SPDX-License-Identifier: Apache-2.0
// `spectralclip list`: tasks, presets, clippers, methods, thresholds, optimizers, each with a line; `--keys` all keys.
#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "config/keys.h"
#include "config/source.h"
#include "tasks.h"

namespace spectralclip::cli {
namespace {

struct Line {
  std::string name, help;
};

const std::vector<Line> kClippers = {
    {"none", "the gradients as they are"},
    {"global_norm", "all gradients by one factor: torch's clip_grad_norm_ (clip.max_norm)"},
    {"layer_norm", "each gradient by its own norm (clip.max_norm)"},
    {"agc", "each unit's gradient by the norm of its weights (clip.agc_factor)"},
    {"coordinate", "each entry to [-clip.max_value, clip.max_value]"},
    {"spectral", "singular values of each gradient matrix at tau (clip.threshold, clip.method)"},
    {"soft", "sigma / sqrt(1 + sigma^2 / c^2) of each gradient matrix (clip.soft_scale)"},
    {"soft_update", "the same of each update, after the optimizer"}};
const std::vector<Line> kMethods = {{"auto", "tracked, or gram where that is cheaper; the default"},
                                    {"tracked", "last step's subspace and fresh random columns"},
                                    {"sketched", "the paper's Algorithm 2: cold subspace of fixed rank"},
                                    {"gram", "eigenvalues of the smaller Gram matrix, float64"},
                                    {"exact", "full SVD, float64"},
                                    {"newton_schulz", "matrix-sign iterations: products only"}};
const std::vector<Line> kThresholds = {{"constant", "clip.tau"},
                                       {"ema", "moving average of past sigma_max (clip.decay)"},
                                       {"quantile", "quantile of the last values (clip.quantile, clip.window)"}};
const std::vector<Line> kOptimizers = {{"sgd", "no momentum"},
                                       {"sgdm", "momentum, in the paper's form or torch's (optimizer.momentum_form)"},
                                       {"adam", "Adam; weight decay coupled"},
                                       {"adamw", "Adam; weight decay beside it"},
                                       {"muon", "Newton-Schulz of the momentum; AdamW for vectors"}};

void print(const std::string& title, const std::vector<Line>& lines) {
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, line.name.size());
  fmt::print("{}\n", title);
  for (const Line& line : lines) fmt::print("  {:<{}}  {}\n", line.name, width, line.help);
  fmt::print("\n");
}

std::vector<Line> preset_lines(bool sweeps) {
  std::vector<Line> lines;
  for (const lab::Preset& preset : lab::presets())
    if (preset.is_sweep == sweeps) lines.push_back({preset.name, preset.summary});
  return lines;
}

void print_all() {
  std::vector<Line> tasks;
  for (const lab::TaskInfo& task : all_tasks()) tasks.push_back({task.name, task.help});
  print("tasks (key: task)", tasks);
  print("presets, for `spectralclip run`", preset_lines(false));
  print("sweeps, for `spectralclip sweep`", preset_lines(true));
  print("clippers (key: clip.kind)", kClippers);
  print("methods of the spectral clipper (key: clip.method)", kMethods);
  print("thresholds of the spectral clipper (key: clip.threshold)", kThresholds);
  print("optimizers (key: optimizer.kind)", kOptimizers);
  fmt::print(
      "`spectralclip list --keys` lists every key; `spectralclip run PRESET --print-config` what a preset sets.\n");
}

void print_keys() {
  for (const lab::KeyInfo& info : lab::keys_of(lab::Config{}))
    fmt::print("{:<26} {:<12} {}\n{:<26} {}\n", info.key, info.value.empty() ? "-" : info.value, info.allowed, "",
               info.help);
}

}  // namespace

void add_list(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("list", "tasks, presets, clippers, methods, optimizers, keys");
  auto names = std::make_shared<bool>(false), keys = std::make_shared<bool>(false);
  command->add_flag("--names", *names, "the names of the presets alone, one a line");
  command->add_flag("--keys", *keys, "every key with its default, its range and its help");
  command->callback([names, keys, &status] {
    status = kDone;
    if (*keys) return print_keys();
    if (!*names) return print_all();
    for (const lab::Preset& preset : lab::presets()) fmt::print("{}\n", preset.name);
  });
}

}  // namespace spectralclip::cli

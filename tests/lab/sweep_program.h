// SPDX-License-Identifier: Apache-2.0
// A small program which stands for the command line tool: it understands
// `run PRESET --set k=v … --seed S --out DIR --quiet [--resume]` and behaves like a run of three steps that checkpoints
// after each, stops on SIGTERM, and locks its directory.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "scratch_folder.h"
#include "sweep/definition.h"

namespace spectralclip::lab::testing {

namespace fs = std::filesystem;

inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// train_loss = 0.001 + (log10(lr / 0.004))^2 + 0.01 (tau - 1)^2 + 1e-5 seed; diverges for lr > 0.05. Presets: "valley",
// "broken", which fails at once, "flaky", whose first start in a directory fails, and "picky", which refuses lr > 0.05.
// test.full=FILE: the disk is full while that file exists. DIR/starts: a line per start, DIR/steps: a line per step.
inline constexpr const char* kProgram = R"(#!/bin/sh
preset=$2; shift 2; lr=0.01; tau=1; pause=0; delay=0; full=; seed=1; resume=new; out=
while [ $# -gt 0 ]; do
  case $1 in
    --set) case $2 in
        optimizer.lr=*) lr=${2#*=};; clip.tau=*) tau=${2#*=};; test.pause=*) pause=${2#*=};; test.delay=*) delay=${2#*=};; test.full=*) full=${2#*=};;
        *) echo "unknown key $2" >&2; exit 2;; esac; shift 2;;
    --seed) seed=$2; shift 2;;
    --out) out=$2; shift 2;;
    --quiet) shift;;
    --resume) resume=resumed; shift;;
    *) echo "unknown option $1" >&2; exit 2;;
  esac
done
if [ "$preset" = broken ]; then echo "preparing"; echo "error: no such data" >&2; exit 1; fi
if [ "$preset" = picky ] && awk "BEGIN { exit !($lr > 0.05) }"; then echo "optimizer.lr is too large" >&2; exit 2; fi
if [ "$preset" = flaky ] && [ ! -e "$out/tried" ]; then touch "$out/tried"; echo "out of memory" >&2; exit 1; fi
if [ -n "$full" ] && [ -e "$full" ]; then echo "cannot write: No space left on device" >&2; exit 1; fi
[ $delay = 0 ] || sleep $delay  # a slow start
exec 9>>"$out/lock"
flock -n 9 || { echo "locked" >&2; exit 1; }
if [ -e "$out/config.toml" ] && [ $resume = new ]; then echo "holds a run" >&2; exit 1; fi
echo $resume >> "$out/starts"
echo "lr = $lr" > "$out/config.toml"
say() { echo "{\"status\":\"$1\",\"seconds\":1.5,\"results\":{\"train_loss\":$2}}" > "$out/summary.tmp"
  mv "$out/summary.tmp" "$out/summary.json"; }
trap 'say stopped null; exit 4' TERM
while [ $(cat "$out/steps" 2>/dev/null | wc -l) -lt 3 ]; do
  [ $pause = 0 ] || sleep $pause 9>&-
  echo step >> "$out/steps"
done
if awk "BEGIN { exit !($lr > 0.05) }"; then say diverged null; exit 3; fi
say finished $(awk "BEGIN { l = log($lr / 0.004) / log(10); printf \"%.17g\", 0.001 + l * l + 0.01 * ($tau - 1) * ($tau - 1) + 1e-5 * $seed }")
)";

inline std::string make_program(const ScratchFolder& folder) {
  const std::string path = folder / "program";
  write_text(path, kProgram);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

inline SweepDefinition small_sweep(SearchKind search, std::int64_t trials) {
  return {.name = "small",
          .preset = "valley",
          .search = search,
          .trials = trials,
          .best_seeds = 2,
          .space = {{"optimizer.lr", 1e-4, 1e-1, Scale::log, 4}, {"clip.tau", 0.01, 10.0, Scale::linear, 3}}};
}

}  // namespace spectralclip::lab::testing

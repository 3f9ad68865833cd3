#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for a few seconds on a temporary corpus, seeded from tests/fuzz/corpus/<target> if that is there.
# Stops at the first finding; its input stays in the directory of the targets.
#
#   tools/run_fuzzers.sh <directory of the targets> [seconds each, 10]
set -euo pipefail
targets="$1"
seconds="${2:-10}"
root="$(cd "$(dirname "$0")/.." && pwd)"

corpus="$(mktemp -d)"
trap 'rm -rf "$corpus"' EXIT
count=0
for target in "$targets"/*_fuzz; do
  [[ -x "$target" ]] || continue
  name="$(basename "$target")"
  mkdir -p "$corpus/$name"
  seeds=()
  [[ -d "$root/tests/fuzz/corpus/$name" ]] && seeds=("$root/tests/fuzz/corpus/$name")
  echo "fuzz: $name for $seconds s"
  log="$targets/$name.log"
  if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$targets/" \
    -print_final_stats=1 "$corpus/$name" ${seeds[@]+"${seeds[@]}"} >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz: $name FAILED; the input is in $targets"
    exit 1
  fi
  grep -E 'number_of_executed_units' "$log" || true
  count=$((count + 1))
done
echo "fuzz: $count targets, no findings" | tee "$targets/summary.txt"

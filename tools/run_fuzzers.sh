#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for a few seconds on a temporary corpus, seeded from tests/fuzz/corpus/<target> if that is there.
# All targets run; a finding fails the run at the end, and its input stays in the directory of the targets.
#
#   tools/run_fuzzers.sh <directory of the targets> <seconds each> <JUnit file to write>
set -euo pipefail
targets="$1" seconds="$2" results="$3"
root="$(cd "$(dirname "$0")/.." && pwd)"

corpus="$(mktemp -d)"
trap 'rm -rf "$corpus"' EXIT
cases="" findings=0 count=0
for target in "$targets"/*_fuzz; do
  [[ -x "$target" ]] || continue
  name="$(basename "$target")"
  mkdir -p "$corpus/$name"
  seeds=()
  [[ -d "$root/tests/fuzz/corpus/$name" ]] && seeds=("$root/tests/fuzz/corpus/$name")
  echo "fuzz: $name for $seconds s"
  log="$targets/$name.log"
  finding=""
  if ! "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$targets/" \
    -print_final_stats=1 "$corpus/$name" ${seeds[@]+"${seeds[@]}"} >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz: $name FAILED; the input is in $targets"
    finding="<failure/>"
    findings=$((findings + 1))
  fi
  grep -E 'number_of_executed_units' "$log" || true
  cases+="<testcase name=\"$name\" time=\"$seconds\">$finding</testcase>"
  count=$((count + 1))
done
echo "<testsuite>$cases</testsuite>" >"$results"
echo "fuzz: $count targets, $findings with findings"
[[ "$count" -gt 0 && "$findings" == 0 ]]

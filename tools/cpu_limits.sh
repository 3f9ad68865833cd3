#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints what a shell should export before torch multiplies 16-bit matrices on this processor, usually nothing: the
# answer of `spectralclip doctor --environment`, asked once a build and processor and kept beside the program. Without a
# built program it prints nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly program=build/torch/cli/spectralclip
[[ -x "$program" ]] || exit 0
processor="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | sort -u | tr -c 'A-Za-z0-9\n' _)"
readonly kept="build/torch/cpu_limits.${processor:-unknown}.sh"
if [[ ! "$kept" -nt "$program" ]]; then
  "$program" doctor --environment >"$kept.new"
  mv "$kept.new" "$kept"
fi
[[ ! -s "$kept" ]] || echo "cpu_limits: $(cat "$kept")" >&2
cat "$kept"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests under other circumstances than this machine's own: instruction sets, threads, order, repetition, a home that
# cannot be written, another locale and time zone, no data beside the checkout. One row a variation at the end; the logs
# stay in build/variations. Takes about an hour on two cores; builds first, so that what is timed is the tests.
#
#   [STAGES="test-dev test-torch test-python"] tools/test_variations.sh [words that select variations by name]
set -uo pipefail
cd "$(dirname "$0")/.."

# name | stages | what env(1) sets | options of ctest | options of pytest
readonly variations=(
  "core on plain C++|test-dev|SPECTRALCLIP_SIMD_TARGET=SCALAR||"
  "core on SSE4|test-dev|SPECTRALCLIP_SIMD_TARGET=SSE4||"
  "core on AVX2|test-dev|SPECTRALCLIP_SIMD_TARGET=AVX2||"
  "core on AVX-512|test-dev|SPECTRALCLIP_SIMD_TARGET=AVX3||"
  "torch: default, MKL: SSE4.2, core: SSE4|test-torch test-python|ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 SPECTRALCLIP_SIMD_TARGET=SSE4||"
  "torch: AVX2, MKL: AVX2, core: AVX2|test-torch test-python|ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 SPECTRALCLIP_SIMD_TARGET=AVX2||"
  "torch: AVX-512, MKL: AVX-512|test-torch test-python|ATEN_CPU_CAPABILITY=avx512 MKL_ENABLE_INSTRUCTIONS=AVX512||"
  "oneDNN: AVX2|test-torch test-python|ONEDNN_MAX_CPU_ISA=AVX2||"
  "no 16-bit products|test-torch|SPECTRALCLIP_SIXTEEN_BIT=off||"
  "one thread|test-dev test-torch test-python|OMP_NUM_THREADS=1 MKL_NUM_THREADS=1||"
  "four threads|test-torch test-python|OMP_NUM_THREADS=4 MKL_NUM_THREADS=4||"
  "shuffled, five times|test-dev|GTEST_SHUFFLE=1|--schedule-random --repeat until-fail:5|"
  "shuffled torch, twice|test-torch|GTEST_SHUFFLE=1|--schedule-random --repeat until-fail:2|"
  "home that cannot be written|test-dev test-torch test-python|HOME=/proc/no-home XDG_CACHE_HOME=/proc/no-home||"
  "another locale and time zone|test-dev test-torch test-python|LOCPATH=$PWD/build/variations/locales LC_ALL=de_DE.ISO-8859-1 TZ=Pacific/Chatham||"
  "no data|test-dev test-python|SPECTRALCLIP_DATA=/nonexistent||"
)

selected() {
  local name="$1" word
  shift
  [[ $# -eq 0 ]] && return 0
  for word in "$@"; do [[ "$name" == *"$word"* ]] && return 0; done
  return 1
}

readonly wanted=" ${STAGES:-test-dev test-torch test-python} "
presets=(torch)
[[ "$wanted" != *" test-dev "* ]] || presets+=(dev)
[[ "$wanted" != " test-dev " ]] || presets=(dev)

# A decimal comma, a thousands point, and an encoding that is not UTF-8.
mkdir -p build/variations/locales
if ! localedef -i de_DE -f ISO-8859-1 --no-archive build/variations/locales/de_DE.ISO-8859-1; then
  echo "no localedef or no sources of locales (Debian: locales): \"another locale and time zone\" is the time zone only"
fi
for preset in "${presets[@]}"; do
  { mkdir -p build/$preset && cmake --preset $preset && cmake --build --preset $preset; } >"build/variations/build.log" 2>&1 ||
    { tail -n 30 build/variations/build.log; exit 1; }
done
rows=() failed=0
for variation in "${variations[@]}"; do
  IFS='|' read -r name stages settings ctest_options pytest_options <<<"$variation"
  selected "$name" "$@" || continue
  for stage in $stages; do
    [[ "$wanted" == *" $stage "* ]] || continue
    log="build/variations/${name//[^A-Za-z0-9]/_}-$stage.log"
    begin=$SECONDS outcome=passed
    # shellcheck disable=SC2086  # settings are words
    env $settings make --no-print-directory "$stage" CTEST_OPTIONS="$ctest_options" PYTEST_OPTIONS="$pytest_options" \
      >"$log" 2>&1 || { outcome="FAILED, see $log" failed=1; }
    rows+=("$(printf '%-42s %-12s %4d s  %s' "$name" "$stage" $((SECONDS - begin)) "$outcome")")
    echo "${rows[-1]}"
  done
done
printf '\n%s\n' "${#rows[@]} runs, $(printf '%s\n' "${rows[@]}" | grep -c FAILED) failed"
exit $failed

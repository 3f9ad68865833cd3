#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the first clang++ that can link a libFuzzer target (its run-time library is a package of its own); else fails.
set -euo pipefail
for candidate in clang++-14 clang++; do
  if path="$(command -v "$candidate")" &&
    echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
      "$path" -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null; then
    echo "$path"
    exit 0
  fi
done
exit 1

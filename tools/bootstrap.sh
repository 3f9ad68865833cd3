#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build, test, fuzz or lint, and says what it does. Looks at the machine each time (no stamp
# file), so the second run finds nothing to do. System packages come from apt, with sudo only when not root; Python parts
# go into .venv. Does not upgrade, remove or configure anything.
#
#   tools/bootstrap.sh [build] [test] [abi] [torch] [lab] [browser] [mpi] [fuzz] [aarch64] [lint] [lint-python]
# default: build test
#
# build, test, torch, lab and aarch64 (adds Debian's arm64 packages) are required; abi, browser, mpi, fuzz and the lints are
# best effort: only their own targets miss them.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly kMinCmake=3.24
say() { printf 'bootstrap: %s\n' "$*"; }
die() { printf 'bootstrap: error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# True when the header is where the compiler looks, whoever put it there.
have_header() {
  have g++ || return 1
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
    g++ -std=c++20 -I/usr/include/eigen3 -I/usr/local/include/eigen3 -fsyntax-only -x c++ - 2>/dev/null
}
have_package() {
  have dpkg-query && [[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]
}
have_cmake() {
  local version
  version="$({ PATH="$PWD/.venv/bin:$PATH" cmake --version 2>/dev/null || true; } | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
  [[ -n "$version" && "$(printf '%s\n' "$kMinCmake" "$version" | sort -V | head -n 1)" == "$kMinCmake" ]]
}
have_venv_module() { python3 -c 'import venv, ensurepip' 2>/dev/null; }

missing=()
wants_python=no
wants_linters=no
need_command() { have "$1" || missing+=("$2"); }                              # command, package
need_header() { have_package "$2" || have_header "$1" || missing+=("$2"); }   # header, package

look_for() {
  case "$1" in
    build)
      need_command g++ g++
      need_command make make
      need_command ninja ninja-build
      need_command python3 python3
      have cmake || missing+=(cmake)
      need_header Eigen/Core libeigen3-dev
      need_header hwy/highway.h libhwy-dev
      need_command ccache ccache
      ;;
    test)
      need_header gtest/gtest.h libgtest-dev
      need_command valgrind valgrind
      ;;
    abi) need_command abidiff abigail-tools ;;
    torch) wants_python=yes ;;
    lab)
      need_header CLI/CLI.hpp libcli11-dev
      need_header toml++/toml.h libtomlplusplus-dev
      need_header nlohmann/json.hpp nlohmann-json3-dev
      need_header fmt/format.h libfmt-dev
      need_header dlib/global_optimization.h libdlib-dev
      wants_python=yes # LibTorch, plotly.js
      ;;
    browser) need_command chromium chromium ;;
    mpi)
      need_command mpirun openmpi-bin
      have mpicxx || missing+=(libopenmpi-dev)
      ;;
    fuzz)
      tools/find_fuzzing_clang.sh >/dev/null || missing+=(clang-14 libclang-rt-14-dev)
      need_header nlohmann/json.hpp nlohmann-json3-dev
      ;;
    aarch64)
      have_package libhwy-dev:arm64 || as_root dpkg --add-architecture arm64
      need_command aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
      need_command qemu-aarch64 qemu-user
      have_package libhwy-dev:arm64 || missing+=(libhwy-dev:arm64)
      have_package libgtest-dev:arm64 || missing+=(libgtest-dev:arm64)
      ;;
    lint)
      need_command clang-format-14 clang-format-14
      need_command clang-tidy-14 clang-tidy-14
      wants_linters=yes
      ;;
    lint-python) # mypy wants to see torch
      wants_python=yes
      wants_linters=yes
      ;;
    *) die "unknown group '$1' (build, test, abi, torch, lab, browser, mpi, fuzz, aarch64, lint, lint-python)" ;;
  esac
}

as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    say "neither root nor sudo here; run as root: $*" >&2
    return 1
  fi
}

# Installs packages, updating the lists once per run. Returns 1 with a message where that is not possible.
lists_updated=no
apt_install() {
  if ! have apt-get; then
    say "no apt on this system; install these (Debian's names) by your own means: $*" >&2
    return 1
  fi
  if [[ "$lists_updated" == no ]]; then
    say "apt-get update"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null || say "apt-get update failed; trying with the lists at hand"
    lists_updated=yes
  fi
  say "apt-get install $*"
  # Another checkout may be installing: wait for it.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=600 -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

# A group that cannot be completed ends the run when it is required and is only mentioned otherwise.
provide() {
  missing=()
  look_for "$1"
  [[ ${#missing[@]} -eq 0 ]] && return
  say "missing for '$1': ${missing[*]}"
  if ! apt_install "${missing[@]}"; then
    case "$1" in
      build | test | lab | aarch64) die "could not install: ${missing[*]}" ;;
      *) say "going on without '$1'" ;;
    esac
  fi
}

make_venv() {
  [[ -x .venv/bin/python ]] && .venv/bin/python -c 'import pip' 2>/dev/null && return
  have_venv_module || apt_install python3-venv || die "python3 -m venv needs the package python3-venv"
  say "creating .venv"
  rm -rf .venv
  python3 -m venv .venv || die "python3 -m venv .venv failed"
}

# True when every line of the requirements file is satisfied inside .venv. Pinned (name==version) or bare names.
requirements_met() {
  [[ -x .venv/bin/python ]] && .venv/bin/python - "$1" <<'PYTHON'
import importlib.metadata as metadata, re, sys
for line in open(sys.argv[1], encoding="utf-8"):
    found = re.match(r"\s*([\w.-]+)(?:\[[^]]*\])?\s*(?:==\s*([\w.+!-]+))?", line.split("#")[0])
    if found:
        try:
            version = metadata.version(found.group(1))
        except metadata.PackageNotFoundError:
            sys.exit(1)
        if found.group(2) and version.split("+")[0] != found.group(2).split("+")[0]:
            sys.exit(1)
PYTHON
}

# torch by itself first: what depends on it then takes the one that is there.
python_parts() {
  requirements_met requirements-dev.txt && return
  make_venv
  local torch
  torch="$(grep -E '^torch==' requirements-dev.txt)"
  say "pip install $torch, then the rest of requirements-dev.txt, into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$torch" || die "pip could not install $torch"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt ||
    die "pip could not install requirements-dev.txt"
}

python_linters() {
  requirements_met requirements-lint.txt && return
  make_venv
  say "pip install requirements-lint.txt into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-lint.txt ||
    say "going on without ruff and mypy"
}

# A distribution whose cmake is too old gets a newer one in .venv; the Makefile looks there first.
recent_cmake() {
  have_cmake && return
  make_venv
  say "cmake is older than $kMinCmake: pip install cmake into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "cmake>=$kMinCmake,<4"
  have_cmake || die "no cmake >= $kMinCmake"
}

[[ $# -gt 0 ]] || set -- build test
for group in "$@"; do
  provide "$group"
done
recent_cmake
[[ "$wants_python" == no ]] || python_parts
[[ "$wants_linters" == no ]] || python_linters

# SPDX-License-Identifier: Apache-2.0
# The front door. Every target sets up what it needs; the work itself is done by CMake presets and tools/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup core build demo test test-dev test-torch test-device test-python test-wheel test-sanitizers test-asan test-tsan test-aarch64 fuzz \
        bench lint lint-python format wheel clean install layers fuzz-with

JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 10
# For variations: make test-dev CTEST_OPTIONS="--schedule-random --repeat until-fail:5", make test-python PYTEST_OPTIONS=-x
CTEST_OPTIONS ?=
PYTEST_OPTIONS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Equal sources and flags in another build directory make equal objects, the precompiled torch header included.
export CCACHE_NOHASHDIR := 1
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

# A home directory that cannot be written has no place for a compiler cache: it goes into build/ then.
ifeq ($(CCACHE_DIR),)
ifneq ($(shell mkdir -p "$$HOME/.cache" 2>/dev/null && test -w "$$HOME/.cache" && echo yes),yes)
export CCACHE_DIR := $(CURDIR)/build/ccache
endif
endif

# What torch must be told on this processor before it multiplies 16-bit matrices: NAME=VALUE words, usually none. Asked
# once a set-up and kept with the build (tools/cpu_limits.sh).
CPU_LIMITS = eval "$$(tools/cpu_limits.sh)";

# Some kernels place programs where ThreadSanitizer cannot map its shadow; a fixed layout avoids that.
FIXED_LAYOUT := $(shell setarch -R true 2>/dev/null && echo setarch -R)
SOURCES = $(shell git ls-files --cached --others --exclude-standard -- '*.h' '*.c' '*.cpp' 2>/dev/null \
            || find include src tests bench examples -name '*.h' -o -name '*.c' -o -name '*.cpp')

# configure_and_build <preset> <extra configure arguments> <target>: configures quietly unless something changed for the
# worse; builds everything without a target.
define configure_and_build
	@mkdir -p build/$(1)
	@cmake --preset $(1) $(2) >build/$(1)/configure.log 2>&1 || { cat build/$(1)/configure.log; exit 1; }
	@$(FIXED_LAYOUT) cmake --build --preset $(1) --parallel $(JOBS) $(if $(3),--target $(3))
endef
define run_ctest
	@$(CPU_LIMITS) $(FIXED_LAYOUT) ctest --preset $(1) --parallel $(JOBS) --output-junit "$(CURDIR)/build/$(1)/results.xml" \
	  --output-log build/$(1)/ctest.log $(CTEST_OPTIONS)
endef

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | \
	  awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

setup:  ## install what is missing (apt, .venv); does nothing the second time
	@tools/bootstrap.sh build test abi torch lab browser mpi

core:  ## the library without torch, its examples and benchmarks, optimised, in build/release
	@tools/bootstrap.sh build
	$(call configure_and_build,release)

build: core setup  ## core, the adapter for LibTorch and the program in build/torch, `import spectralclip` in .venv
	$(call configure_and_build,torch)
	@echo "$(CURDIR)/python" >"$$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/spectralclip-checkout.pth"
	@.venv/bin/python -c 'import spectralclip; print("build: import spectralclip", spectralclip.__version__)'

demo: setup  ## the paper's MLP under heavy-tailed noise, in short form: a table here, a report in runs/demo/report.html
	$(call configure_and_build,torch,,spectralclip_cli)
	@tools/demo.sh

test: setup  ## all tests: C++, sanitizers, fuzzing, LibTorch, Python; every stage runs, then one table
	@python3 tools/run_stages.py layers= test-dev=build/dev/results.xml test-asan=build/asan/results.xml \
	  test-tsan=build/tsan/results.xml fuzz=build/fuzz/results.xml test-torch=build/torch/results.xml \
	  test-python=build/pytest.xml

layers:
	@python3 tools/check_layers.py --self-test
	@python3 tools/check_layers.py

test-dev: setup  ## the tests alone, in build/dev
	$(call configure_and_build,dev)
	$(call run_ctest,dev)

test-torch: setup  ## the adapter for LibTorch and the laboratory, in build/torch
	$(call configure_and_build,torch)
	$(call run_ctest,torch)

test-python: setup  ## the Python package on the operators of build/torch, and the program spectralclip
	$(call configure_and_build,torch)
	@$(CPU_LIMITS) SPECTRALCLIP_LIBRARY="$(CURDIR)/build/torch/torch/libspectralclip_ops.so" \
	  PYTHONPATH="$(CURDIR)/python" .venv/bin/python -m pytest -q -n $(JOBS) --dist loadfile --junitxml build/pytest.xml \
	  $(PYTEST_OPTIONS)

test-device: setup  ## the paths of devices: ATen operators, Triton's kernels; with a CUDA device also the benchmark on it
	$(call configure_and_build,torch)
	@ctest --test-dir build/torch -L device --output-on-failure
	@$(CPU_LIMITS) SPECTRALCLIP_LIBRARY="$(CURDIR)/build/torch/torch/libspectralclip_ops.so" \
	  PYTHONPATH="$(CURDIR)/python" .venv/bin/python -m pytest -q -n $(JOBS) --dist loadfile \
	  tests/python/test_triton_*.py tests/python/test_device_path.py $(PYTEST_OPTIONS)
	@PYTHONPATH="$(CURDIR)/python" .venv/bin/python bench/devices.py --registers
	@if .venv/bin/python -c 'import torch; raise SystemExit(not torch.cuda.is_available())'; then \
	  PYTHONPATH="$(CURDIR)/python" .venv/bin/python bench/compare.py --device cuda; \
	else echo "test-device: no CUDA device here, nothing was measured on one"; fi

test-wheel: wheel  ## the wheel in a new virtual environment, and a clip with it
	@tools/test_wheel.sh

wheel: setup  ## a wheel for the torch in .venv, in dist/
	@.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w dist .

test-sanitizers: test-asan test-tsan  ## the tests under Address-, UndefinedBehavior- and ThreadSanitizer

test-asan test-tsan: test-%: setup
	$(call configure_and_build,$*)
	$(call run_ctest,$*)

test-aarch64:  ## kernels, conformance and properties for 64-bit Arm (NEON), cross-compiled, by qemu; not part of test
	@tools/bootstrap.sh build test aarch64
	$(call configure_and_build,aarch64)
	$(call run_ctest,aarch64)

fuzz:  ## each fuzz target for FUZZ_SECONDS (clang)
	@tools/bootstrap.sh build fuzz
	@if clang="$$(tools/find_fuzzing_clang.sh)"; then $(MAKE) --no-print-directory fuzz-with CLANGXX="$$clang"; \
	else echo "fuzz: skipped, because no clang++ here can link a libFuzzer target"; mkdir -p build/fuzz; \
	  echo '<testsuite><testcase name="fuzz: no clang++ here can link a libFuzzer target"><skipped/></testcase></testsuite>' \
	    >build/fuzz/results.xml; fi

fuzz-with:
	$(call configure_and_build,fuzz,-DCMAKE_CXX_COMPILER=$(CLANGXX) -DCMAKE_C_COMPILER=$(subst clang++,clang,$(CLANGXX)))
	@tools/run_fuzzers.sh build/fuzz/fuzz $(FUZZ_SECONDS) build/fuzz/results.xml

bench: build  ## the benchmarks of the README's tables, core and torch; wants an idle machine
	@build/release/bench/bench_clip
	@.venv/bin/python bench/compare.py

lint: layers lint-python  ## clang-format, clang-tidy, folder order, ruff, mypy, shellcheck if present
	@tools/bootstrap.sh build test lint
	@clang-format-14 --dry-run -Werror $(SOURCES)
	@mkdir -p build/lint
	@cmake --preset dev -B build/lint -DSPECTRALCLIP_UNITY=OFF >build/lint/configure.log 2>&1 || { cat build/lint/configure.log; exit 1; }
	@find src -name '*.cpp' -print0 | sort -z | xargs -0 -P $(JOBS) -n 1 \
	  clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option -p build/lint
	@if command -v shellcheck >/dev/null; then shellcheck tools/*.sh .ci/run; else echo "lint: no shellcheck here"; fi
	@echo "lint: clean"

lint-python:  ## ruff and mypy, as pyproject.toml sets them
	@tools/bootstrap.sh lint-python
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --quiet --check
	@.venv/bin/mypy

format:  ## clang-format and ruff, in place
	@tools/bootstrap.sh lint
	@clang-format-14 -i $(SOURCES)
	@.venv/bin/ruff check --quiet --fix --exit-zero && .venv/bin/ruff format --quiet

install: core  ## into PREFIX (/usr/local)
	@cmake --install build/release --prefix "$(PREFIX)"

clean:  ## remove build/
	@rm -rf build dist

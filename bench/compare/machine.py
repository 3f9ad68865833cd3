# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine and the build that every figure depends on."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import sys

import torch

import spectralclip


def cpu_model() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor() or "unknown"


def blas() -> str:
    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return found.group(1) if found else "unknown"


def describe() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        "hardware_threads": os.cpu_count(),
        "threads": torch.get_num_threads(),
        # Figures of a busy machine are not figures.
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "simd": torch.ops.spectralclip.simd_target(),
        "torch": torch.__version__,
        "torch_simd": torch.backends.cpu.get_cpu_capability(),
        "blas": blas(),
        "python": platform.python_version(),
        "spectralclip": spectralclip.__version__,
    }


def warn_if_busy(facts: dict[str, object]) -> None:
    load, threads = facts["load"], facts["hardware_threads"]
    if isinstance(load, float) and isinstance(threads, int) and load > threads / 4:
        print(f"warning: load {load} on {threads} threads: something else is running here", file=sys.stderr)


def sentence(facts: dict[str, object]) -> str:
    return (
        "Machine: {cpu}, {hardware_threads} hardware threads, {threads} used, load {load} at start. "
        "spectralclip {spectralclip} ({simd} kernels), torch {torch} ({torch_simd}, BLAS {blas}), Python {python}."
    ).format(**facts)

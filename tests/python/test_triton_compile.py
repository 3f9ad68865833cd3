# SPDX-License-Identifier: Apache-2.0
"""Every kernel of a step, down to machine code for devices that are not here: registers, shared and local memory are
printed (pytest -s), and a kernel that spills is a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("triton", reason="triton is missing: make setup installs it (requirements-dev.txt)")

KERNELS = {"pass", "reduce", "decide", "combine", "update", "finish", "draw"}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_every_kernel_compiles_and_spills_nothing(target, tmp_path):
    """In a process of its own: this one interprets."""
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", "-m", "device_cost.compile_all", target]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    print("\n" + done.stdout)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["kernel"] for line in lines} == KERNELS
    for kernel in ("pass", "update"):
        assert {line["type"] for line in lines if line["kernel"] == kernel} == {"fp32", "bf16", "fp16"}
    most = 255 if target.startswith("sm") else 512
    for line in lines:
        assert 0 < line["registers"] <= most and line["spilled"] == 0, line
        assert line["shared"] <= (64 if target == "gfx942" else 160) * 1024, line

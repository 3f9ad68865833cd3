# SPDX-License-Identifier: Apache-2.0
"""The program `spectralclip` for the tests of the laboratory: where it is, how it is called, what a run left behind."""

from __future__ import annotations

import json
import os
import pathlib
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("SPECTRALCLIP_CLI", ROOT / "build" / "torch" / "cli" / "spectralclip"))
needs_program = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built (make build)")

SPECTRAL = "mlp-heavy-tail-sgdm-spectral-quantile"


def call(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end. After a quarter of an hour it counts as hanging, however busy the machine is.
    Options are those of subprocess.run."""
    command = [str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, **options)  # type: ignore[call-overload]


def start(*words: object) -> subprocess.Popen[str]:
    command = [str(PROGRAM), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def settings(**values: object) -> list[str]:
    """train_steps=100 as --set train.steps=100."""
    words = []
    for name, value in values.items():
        words += ["--set", f"{name.replace('__', '.')}={value}"]
    return words


def lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(run: pathlib.Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def metrics_without_time(run: pathlib.Path) -> list[dict]:
    return [
        {key: value for key, value in line.items() if key not in ("seconds", "train_seconds")}
        for line in lines(run / "metrics.jsonl")
    ]


def checkpoint_sections(run: pathlib.Path) -> dict[str, bytes]:
    """The named sections of checkpoint.bin (lab/record/checkpoint.h); step and seconds are left out."""
    data = (run / "checkpoint.bin").read_bytes()
    assert data[4:20] == b"spectralclip run" and struct.unpack_from("<I", data, 20) == (2,)
    (position,) = struct.unpack_from("<Q", data, len(data) - 16)
    (count,) = struct.unpack_from("<Q", data, position)
    position += 8
    sections = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, position)
        name = data[position + 4 : position + 4 + length].decode()
        offset, size = struct.unpack_from("<QQ", data, position + 4 + length)
        sections[name] = data[offset : offset + size]
        position += 4 + length + 16
    return sections

# SPDX-License-Identifier: Apache-2.0
"""What a user's own program sees of the types: it passes mypy --strict, and its mistakes do not."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn

import spectralclip
from spectralclip import SpectralClipper

pytest.importorskip("mypy", reason="needs mypy (requirements-lint.txt)")

# tools/test_wheel.sh checks the same program against an installed wheel.
PROGRAM = (pathlib.Path(__file__).resolve().parent / "typed_program.py").read_text(encoding="utf-8")


def mypy(folder: pathlib.Path, programs: dict[str, str]) -> list[str]:
    """Lines of complaint about all of them together: to look at torch takes most of the time."""
    for name, text in programs.items():
        (folder / name).write_text(text, encoding="utf-8")
    package = pathlib.Path(spectralclip.__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(folder / "cache"),
    ]
    environment = {**os.environ, "MYPYPATH": str(package)}
    done = subprocess.run([*command, *programs], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_a_program_of_twenty_lines_and_its_mistakes(tmp_path):
    mistakes = (
        "\nbad: str = layer.tau\nclipped_report.sigma_may\n"
        "spectralclip.SpectralClipper(model, treshold=1.0)\nspectralclip.SpectralClipper(model, method='grim')\n"
    )
    lines = mypy(tmp_path, {"right.py": PROGRAM, "wrong.py": PROGRAM + mistakes})
    assert not [line for line in lines if line.startswith("right.py")], lines
    for complaint in (
        'Incompatible types in assignment (expression has type "float", variable has type "str")',
        '"ClipReport" has no attribute "sigma_may"',
        'Unexpected keyword argument "treshold"',
        'Argument "method" to "SpectralClipper" has incompatible type',
    ):
        assert any(line.startswith("wrong.py") and complaint in line for line in lines), lines


def test_fields_of_a_layer_are_there_to_complete():
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    model.bias.grad = None
    first, second = SpectralClipper(model, 0.1).step()
    assert {"tau", "sigma_max", "status", "removed_energy", *spectralclip.reports.FIELDS} <= set(dir(first))
    assert first.tau == 0.1 and first.status == "ok" and first.clipped == 1
    assert second.clip is None and second.tau != second.tau and second.status is None and second.clipped == 0
    with pytest.raises(AttributeError):
        _ = first.sigma_may


def test_the_report_of_a_batch_speaks_of_the_whole():
    G = torch.stack([3 * torch.eye(2), 0.5 * torch.eye(2), 4 * torch.diag(torch.tensor([1.0, 0.1]))])
    _, report = spectralclip.clip_singular_values(G, 1.0, method="exact")
    assert report.sigma_max == pytest.approx(4.0) and report.clipped == 3 and report.status == "ok"
    assert report.norm_before == pytest.approx(float(torch.linalg.vector_norm(G)))
    assert report.norm_after == pytest.approx((2 + 0.5 + 1 + 0.16) ** 0.5)
    assert report.removed_energy == pytest.approx(1 - (report.norm_after / report.norm_before) ** 2)
    assert len(report) == 3 and [one.clipped for one in report] == [2, 0, 1] and report[0].sigma_max == pytest.approx(3)
    single = spectralclip.clip_singular_values(G[0], 1.0)[1]
    assert list(single) == [single] and single.batch is None
    _, nothing = spectralclip.clip_singular_values(torch.zeros(0, 2, 2), 1.0)
    assert len(nothing) == 0 and nothing.clipped == 0 and nothing.status == "ok" and bool(nothing)
    bad = G.clone()
    bad[1, 0, 0] = torch.nan
    _, report = spectralclip.clip_singular_values(bad, 1.0)
    assert report.status == "not_finite" and report[0].status == "ok"

# SPDX-License-Identifier: Apache-2.0
"""``spectralclip propose``: the same numbers as the Python clipper's, from a run's layers.jsonl, and a picture."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from lab_tool import call, needs_program, settings

from spectralclip.proposals import propose

pytestmark = needs_program


def recorded(folder, sigmas: torch.Tensor, names: list[str]) -> None:
    folder.mkdir()
    with (folder / "layers.jsonl").open("w") as file:
        for step, row in enumerate(sigmas.tolist(), 1):
            layers = [{"name": n, "sigma1": s, "tau": 1.0} for n, s in zip(names, row) if not math.isnan(s)]
            file.write(json.dumps({"step": 10 * step, "layers": layers}) + "\n")


def pareto(steps: int, layers: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.rand(steps, layers, generator=generator, dtype=torch.float64) ** (-1 / 1.5)


@pytest.mark.parametrize("share", [0.05, 0.25])
def test_the_numbers_are_those_of_the_clipper(tmp_path, share):
    names = ["network.W_1.weight", 'odd <&> "name"', "c"]
    sigmas = pareto(120, 3)
    sigmas[::3, 2] = torch.nan
    recorded(tmp_path / "run", sigmas, names)
    done = call("propose", tmp_path / "run", "--share", str(share))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    expected = propose(sigmas, names, names, share)
    assert lines[0] == f"constant thresholds that would have clipped {100 * share:.2g}% of 120 recorded steps"
    for line, p in zip(lines[2:], [*expected, expected.model, expected.pooled]):
        cells = line[len(p.name) :].replace("[", " ").replace("]", " ").replace(",", " ").split()
        found = [float(cell.rstrip("%")) for cell in cells]
        wanted = [p.steps, p.tau, p.low, p.high, p.early, p.late, 100 * p.share]
        wanted += [100 * p.share_at_model] if p in list(expected) else []
        assert line.startswith(p.name) and found == pytest.approx(wanted, rel=0.06), line
        assert found[:6] == pytest.approx(wanted[:6], rel=6e-4)
    assert f"--set clip.threshold=constant --set clip.tau={expected.model.tau:.6g}" in lines

    picture = (tmp_path / "run" / "propose.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture)
    svg = "{http://www.w3.org/2000/svg}"
    shown = [e for e in root.iter(f"{svg}tspan") if e.get("class") == "name"]
    assert [e.text for e in shown] == names
    dots = list(root.iter(f"{svg}circle"))
    assert len(dots) == int((~sigmas.isnan()).sum())
    above = sum(e.get("class") == "above" for e in dots)
    assert above == sum(round(p.share * p.steps) for p in expected)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert all(0 <= float(e.get("cx")) <= width and 0 <= float(e.get("cy")) <= height for e in dots)
    assert len([e for e in root.iter(f"{svg}line") if e.get("class") == "tau"]) == 3


def test_a_real_run(tmp_path):
    words = ["mlp-heavy-tail-sgdm-norm", *settings(train__steps=60, record__layers_every=1, mlp__samples=200)]
    assert call("run", *words, "--out", tmp_path / "run", "--quiet").returncode == 0
    done = call("propose", tmp_path / "run" / "layers.jsonl", "--no-picture")
    assert done.returncode == 0, done.stderr
    assert re.search(r"would have clipped 5% of 60 recorded steps", done.stdout)
    assert not list(tmp_path.glob("**/*.svg"))


def test_trouble_is_named(tmp_path):
    done = call("propose", tmp_path)
    assert (
        done.returncode == 2 and "layers.jsonl is not there: a run writes it every record.layers_every" in done.stderr
    )
    recorded(tmp_path / "run", pareto(20, 1), ["w"])
    for share in ("1", "-0.1", "nan"):
        done = call("propose", tmp_path / "run", "--share", share)
        assert done.returncode == 2 and "share" in done.stderr
    path = tmp_path / "run" / "layers.jsonl"
    lines = path.read_text().splitlines()
    lines[3] = "{damaged"
    path.write_text("\n".join(lines) + '\n{"step": 999, "layers": [{"name"')
    done = call("propose", tmp_path / "run", "--out", tmp_path / "x.svg")
    assert done.returncode == 0 and "1 damaged lines were skipped" in done.stderr and "no end" in done.stderr
    assert "of 19 recorded steps" in done.stdout and (tmp_path / "x.svg").is_file()
    path.write_text('{"step": 1, "layers": []}\n')
    done = call("propose", tmp_path / "run")
    assert done.returncode == 2 and "has no layer with a sigma1" in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""Runs of the program ``spectralclip`` as data frames.

>>> run = spectralclip.lab.read("runs/x")  # doctest: +SKIP
>>> run.metrics.plot(x="step", y="loss")  # doctest: +SKIP

Needs pandas, which spectralclip does not install.
"""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = ["Run", "read"]


@dataclass(frozen=True)
class Run:
    """What one run directory holds.

    ``metrics`` has a row for each line of metrics.jsonl, ``layers`` one for each layer of each line of layers.jsonl
    (step, name, sigma1, tau, ...; empty when there is none). ``summary`` is summary.json: results, settings, timing.
    """

    path: pathlib.Path
    summary: dict[str, Any]
    metrics: pandas.DataFrame
    layers: pandas.DataFrame


def read(path: str | os.PathLike[str]) -> Run:
    """Reads a run directory, of a run that goes on too: a last line that is not whole yet is left out."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("spectralclip.lab.read gives data frames: install pandas (pip install pandas)") from error
    folder = pathlib.Path(path)
    summary_file = folder / "summary.json"
    if not summary_file.is_file():
        raise FileNotFoundError(f"{folder} is no run directory: it has no summary.json")
    layers = [
        {"step": line["step"], **layer} for line in _lines(folder / "layers.jsonl") for layer in line.get("layers", [])
    ]
    return Run(
        path=folder,
        summary=json.loads(summary_file.read_text(encoding="utf-8")),
        metrics=pandas.DataFrame(_lines(folder / "metrics.jsonl")),
        layers=pandas.DataFrame(layers),
    )


def _lines(path: pathlib.Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    texts = path.read_text(encoding="utf-8").split("\n")
    lines = []
    for number, text in enumerate(texts[:-1], start=1):  # behind the last end of line: nothing, or a torn line
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number} is damaged: {text[:60]}") from error
    return lines

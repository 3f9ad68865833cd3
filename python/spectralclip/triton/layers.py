# SPDX-License-Identifier: Apache-2.0
"""The layers of a clipper as its core describes them, what kernels are told of them, and what kernels cannot do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import torch

from . import layout
from .engine import FRESH, LARGEST_WINDOW, STORED_EPSILON

SUPPORTED_COLUMNS = (16, 32)
DEFAULT_PASSES, MOST_PASSES = 2, 3
DEFAULTS = {"max_passes": 8, "max_columns": 64}  # the core's: what was not given (include/spectralclip/options.h)
_MASK64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

# Columns of the plan (torch/ops/layer_tables.h).
_NUMBERS = (
    "parameter", "index", "batch_axes", "row_axes", "rows", "cols", "treatment", "matrix_id", "seed", "kind", "window",
    "warmup_steps", "first_step", "interpolation", "observe_zeros", "method", "rank", "max_passes", "max_columns",
    "exhausted", "observe_only", "measure_time",
)  # fmt: skip
_VALUES = ("tau", "decay", "quantile", "slack", "floor", "cap", "tolerance", "margin")
_METHODS = ("exact", "gram", "sketched", "tracked", "newton_schulz", "auto")
_TRACKED, _AUTO, _GO_EXACT = 3, 5, 0


def _mixed(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


def key_of(seed: int, matrix_id: int) -> int:
    """Of the random columns of a matrix, as src/random/uniform.cpp makes it; as a signed number for a tensor."""
    key = _mixed(((seed & _MASK64) + _GOLDEN * _mixed(((matrix_id & _MASK64) + 1) & _MASK64)) & _MASK64)
    return key - (1 << 64) if key >= 1 << 63 else key


@dataclasses.dataclass
class Layer:
    """A matrix of the clipper and its options, by the names of the core."""

    name: str
    numbers: dict[str, int]
    values: dict[str, float]

    @property
    def spectral(self) -> bool:
        """A matrix of one row or column has one singular value, its norm."""
        n = self.numbers
        return n["treatment"] == int(layout.SPECTRAL.value) and min(n["rows"], n["cols"]) > 1

    def options(self, dtype: torch.dtype, *, sure_only: bool) -> list[float]:
        n, v = self.numbers, self.values
        observe_only = n["observe_only"] or (2 if sure_only else 0)
        return [
            n["kind"], v["tau"], v["decay"], v["quantile"], n["window"], n["first_step"], n["interpolation"],
            v["slack"], v["floor"], v["cap"], n["warmup_steps"], n["observe_zeros"], n["rank"], v["tolerance"],
            v["margin"], observe_only, STORED_EPSILON[dtype],
        ]  # fmt: skip

    def treatment(self) -> int:
        if self.numbers["treatment"] == int(layout.SPECTRAL.value) and not self.spectral:
            return int(layout.NORM.value)
        return self.numbers["treatment"]


def layers_of(core: Any) -> list[Layer]:
    numbers, values = core.plan()
    names = core.report()[0]
    return [
        Layer(name, dict(zip(_NUMBERS, n)), dict(zip(_VALUES, v)))
        for name, n, v in zip(names, numbers.tolist(), values.tolist())
    ]


def refusal(layers: Sequence[Layer], columns: int) -> Optional[str]:
    """Why these kernels cannot do what the options say; None when they can."""
    if columns not in SUPPORTED_COLUMNS:
        return f"device_columns = {columns} is none of {SUPPORTED_COLUMNS}"
    for layer in layers:
        n = layer.numbers
        if n["kind"] == 2 and n["window"] > LARGEST_WINDOW:
            return f'layer "{layer.name}": a quantile window of {n["window"]} is beyond {LARGEST_WINDOW}'
        if not layer.spectral:
            continue
        reason = _refusal_of_search(n, columns)
        if reason:
            return f'layer "{layer.name}": {reason}'
    return None


def _refusal_of_search(n: dict[str, int], columns: int) -> Optional[str]:
    if n["method"] not in (_TRACKED, _AUTO):
        return f'method = "{_METHODS[n["method"]]}": only "tracked" (and "auto", which is the same here) has kernels'
    if n["exhausted"] == _GO_EXACT:
        return 'exhausted = "go_exact": nothing on the device finishes by gram; statuses and bounds say what is left'
    if n["max_passes"] != DEFAULTS["max_passes"] and not DEFAULT_PASSES <= n["max_passes"] <= MOST_PASSES:
        return (
            f"max_passes = {n['max_passes']}: {DEFAULT_PASSES} (the default here) or {MOST_PASSES} passes are launched"
        )
    if n["max_columns"] != DEFAULTS["max_columns"]:
        return f"max_columns = {n['max_columns']}: the width is fixed here, device_columns = 16 or 32"
    if n["rank"] > columns - FRESH:
        return f"rank = {n['rank']}: device_columns = {columns} keeps {columns - FRESH} vectors from step to step"
    if n["measure_time"]:
        return "measure_time: kernels of all layers run together"
    return None

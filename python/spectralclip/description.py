# SPDX-License-Identifier: Apache-2.0
"""What a clipper does with each parameter, as a table: which rule applied, as which matrices, at which threshold."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import torch

from ._table import html_table, table
from .reports import LayerReport


@dataclasses.dataclass(frozen=True)
class ParameterPlan:
    """One parameter: ``matrices`` of ``matrix`` shape are made of it, and ``rule`` says why this ``treatment``."""

    name: str
    shape: tuple[int, ...]
    treatment: str
    matrices: int
    matrix: tuple[int, int]
    rule: str
    threshold: str
    trained: bool


def describe(
    layers: Sequence[LayerReport], thresholds: Sequence[str], names: Sequence[str], parameters: Sequence[torch.Tensor]
) -> Description:
    """``thresholds`` belong to ``layers``, ``names`` to ``parameters``."""
    first: dict[str, LayerReport] = {}
    count: dict[str, int] = {}
    threshold_of: dict[str, str] = {}
    for layer, threshold in zip(layers, thresholds):
        first.setdefault(layer.parameter, layer)
        threshold_of.setdefault(layer.parameter, threshold)
        count[layer.parameter] = count.get(layer.parameter, 0) + 1
    return Description([
        ParameterPlan(
            name, tuple(p.shape), first[name].treatment, count[name], first[name].shape, first[name].rule,
            threshold_of[name], p.requires_grad,
        )
        for name, p in zip(names, parameters)
    ])  # fmt: skip


_HEAD = ("parameter", "shape", "as", "clipped by", "threshold", "why")


class Description(Sequence[ParameterPlan]):
    """The rows, and the table when it is printed; parameters that differ only by numbers in their names share a line.

    >>> import torch, spectralclip
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    >>> print(spectralclip.SpectralClipper(model, 1.0).describe())
    parameter      shape  as     clipped by       threshold    why
    -------------  -----  -----  ---------------  -----------  ------------------
    0.weight       3 x 4  3 x 4  singular values  constant(1)  matrix (out, rest)
    {0..2}.bias    3      3      norm             constant(1)  vector: norm
    {1..2}.weight  3 x 3  3 x 3  singular values  constant(1)  matrix (out, rest)
    -> 3 by singular values, 3 by norm, 0 skipped; 39 entries
    """

    def __init__(self, plans: Sequence[ParameterPlan]) -> None:
        self._plans = tuple(plans)

    def __len__(self) -> int:
        return len(self._plans)

    def __getitem__(self, place: int) -> ParameterPlan:  # type: ignore[override]  # no slices: it is a table
        return self._plans[place]

    def __iter__(self) -> Iterator[ParameterPlan]:
        return iter(self._plans)

    def _rows(self) -> list[list[str]]:
        groups: dict[tuple[object, ...], list[ParameterPlan]] = {}
        for plan in self._plans:
            pattern = re.sub(r"(?<![^.])\d+(?![^.])", "{}", plan.name)
            key = (pattern, *dataclasses.astuple(dataclasses.replace(plan, name="")))
            groups.setdefault(key, []).append(plan)
        return [[_joined_name(plans), *_cells(plans[0])] for plans in groups.values()]

    def _summary(self) -> str:
        count = {kind: sum(p.treatment == kind for p in self._plans) for kind in ("spectral", "norm", "skip")}
        entries = sum(_entries(plan.shape) for plan in self._plans)
        return (
            f"-> {count['spectral']} by singular values, {count['norm']} by norm, {count['skip']} skipped; "
            f"{entries:,} entries"
        )

    def __str__(self) -> str:
        return f"{table(_HEAD, self._rows())}\n{self._summary()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows()) + f"<p>{self._summary()}</p>"


def _entries(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _cells(plan: ParameterPlan) -> list[str]:
    treatment = {"spectral": "singular values", "norm": "norm", "skip": "-"}[plan.treatment]
    shape = " x ".join(str(extent) for extent in plan.shape) or "scalar"
    rows, cols = plan.matrix
    one = str(cols) if rows == 1 else f"{rows} x {cols}"
    taken = "-" if plan.treatment == "skip" else one if plan.matrices == 1 else f"{plan.matrices} of {one}"
    return [
        shape, taken, treatment, "-" if plan.treatment == "skip" else plan.threshold,
        plan.rule + ("" if plan.trained else " (frozen)"),
    ]  # fmt: skip


def _joined_name(plans: Sequence[ParameterPlan]) -> str:
    """``h.{0..11}.weight`` for names that differ in their numbers."""
    parts = [plan.name.split(".") for plan in plans]
    return ".".join(_joined_part([part[i] for part in parts]) for i in range(len(parts[0])))


def _joined_part(words: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(words))
    if len(distinct) == 1:
        return distinct[0]
    numbers = sorted(int(word) for word in distinct)
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{{{numbers[0]}..{numbers[-1]}}}"
    return "{" + ",".join(map(str, numbers)) + "}"

# SPDX-License-Identifier: Apache-2.0
"""From what was observed to constant thresholds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import torch

from ._library import ops
from ._table import html_table, number, share, table


@dataclasses.dataclass(frozen=True)
class Proposal:
    """One constant threshold: ``sigma_max`` was above ``tau`` in ``share`` of the ``steps`` it rests on, at most the
    share that was asked for.

    ``low`` and ``high`` are the 95 % interval of that quantile from its order statistics, as if steps were independent
    (``high`` is inf where there are too few to say); ``early`` and ``late`` are the same quantile over the first and
    the second half of the steps.  Where those two are far apart the scale drifts, and no constant fits.
    """

    name: str
    steps: int
    tau: float
    share: float
    low: float
    high: float
    early: float
    late: float

    @property
    def drift(self) -> float:
        """``late / early``: 1 where the scale stays."""
        return self.late / self.early if self.early else math.nan


@dataclasses.dataclass(frozen=True)
class LayerProposal(Proposal):
    """``share_at_model``: how often this layer would have been clipped by the one number for the whole model."""

    parameter: str = ""
    share_at_model: float = math.nan


_HEAD = ("layer", "steps", "tau", "95 %", "early", "late", "clipped", "by the one number")
_RIGHT = ("steps", "tau", "early", "late", "clipped", "by the one number")


class Proposals(Sequence[LayerProposal]):
    """For each layer a threshold of its own, and two for the model as one number:

    - ``model``: in the wanted share of the steps at least one layer would have been clipped by it
    - ``pooled``: it would have clipped that share of all clips, layers and steps counted together

    ``thresholds`` is a dictionary for ``SpectralClipper(model, threshold=...)``.  Printed, it is a table.
    """

    def __init__(
        self, wanted: float, layers: Sequence[LayerProposal], model: Proposal, pooled: Proposal,
        thresholds: dict[str, float],
    ) -> None:  # fmt: skip
        self.share = wanted
        self.model = model
        self.pooled = pooled
        self.thresholds = thresholds
        self._layers = tuple(layers)

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, place: int) -> LayerProposal:  # type: ignore[override]  # no slices: it is a table
        return self._layers[place]

    def __iter__(self) -> Iterator[LayerProposal]:
        return iter(self._layers)

    def _rows(self) -> list[list[str]]:
        rows = [[*_cells(layer), share(layer.share_at_model)] for layer in self._layers]
        return [*rows, [*_cells(self.model), ""], [*_cells(self.pooled), ""]]

    def _title(self) -> str:
        return f"constant thresholds that would have clipped {share(self.share)} of {self.model.steps} steps"

    def __str__(self) -> str:
        return f"{self._title()}\n{table(_HEAD, self._rows(), _RIGHT)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{self._title()}</p>" + html_table(_HEAD, self._rows())


def _cells(p: Proposal) -> list[str]:
    return [
        p.name, str(p.steps), number(p.tau), f"[{number(p.low)}, {number(p.high)}]", number(p.early), number(p.late),
        share(p.share),
    ]  # fmt: skip


def propose(sigma_max: torch.Tensor, names: Sequence[str], parameters: Sequence[str], wanted: float) -> Proposals:
    """``sigma_max``: steps x layers, NaN where a layer had no gradient.  ``parameters``: whose layer each is."""
    finite = torch.where(sigma_max.isfinite(), sigma_max, torch.nan)
    largest = torch.where(finite.isnan(), -torch.inf, finite).amax(1, keepdim=True)
    model = _proposals(largest, ["any layer at all"], wanted)[0]
    pooled = _proposals(finite.reshape(-1, 1), ["all layers pooled"], wanted)[0]
    layers = [
        LayerProposal(**dataclasses.asdict(p), parameter=owner, share_at_model=_share_above(finite[:, i], model.tau))
        for i, (p, owner) in enumerate(zip(_proposals(finite, names, wanted), parameters))
    ]
    thresholds = {}
    for owner in dict.fromkeys(parameters):  # the matrices of one parameter share a threshold
        own = [i for i, other in enumerate(parameters) if other == owner]
        tau = _proposals(finite[:, own].reshape(-1, 1), [owner], wanted)[0].tau
        if not math.isnan(tau):
            thresholds[owner] = tau
    return Proposals(wanted, layers, model, pooled, thresholds)


def _proposals(columns: torch.Tensor, names: Sequence[str], wanted: float) -> list[Proposal]:
    rows = ops.propose(columns, float(wanted)).tolist()
    return [Proposal(name, int(steps), *rest) for name, (steps, *rest) in zip(names, rows)]


def _share_above(column: torch.Tensor, tau: float) -> float:
    seen = column[~column.isnan()]
    return float((seen > tau).double().mean()) if len(seen) else math.nan

# SPDX-License-Identifier: Apache-2.0
"""Clippers over a whole set: what each is set up to do, and what it says about its latest step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch

import spectralclip
from spectralclip.options import Method

from .gradients import Layer, LayerSet, relative_sigma
from .rivals import RANK, AlgorithmTwo

# norm: scale everything.  ema: the loud layers, 45 %, have one to three values above the moving average of their past.
# always: ten directions of every layer.
Task = Literal["norm", "ema", "always"]
EMA_DECAY = 0.9
ALWAYS_TOLERANCE = 3e-3

NORM = "torch clip_grad_norm_"
TRACKED = "spectralclip tracked, EMA"
ALWAYS = "spectralclip tracked, always r = 10"
SKETCHED = "spectralclip sketched, always r = 10"
PUBLISHED = "Algorithm 2 (svd_lowrank), EMA"
PUBLISHED_ALWAYS = "Algorithm 2 (svd_lowrank), always r = 10"


@dataclasses.dataclass(frozen=True)
class LayerResult:
    """What a contender says it did to a layer.  status is None when it cannot say."""

    tau: float
    clipped: int
    status: str | None = None


@dataclasses.dataclass
class Contender:
    name: str
    task: Task
    step: Callable[[], object]  # what is timed
    results: Callable[[], list[LayerResult]] = list  # of the latest step, one per layer; empty for norm clipping
    state_bytes: Callable[[], float] = lambda: 0.0
    wrong_share: float = 1e-2  # relative error of a removed part that is no longer "inaccurate"
    tolerance: float = 1e-4  # the default of spectralclip's option
    may_miss: int = 0  # directions that it may leave out when all ten are barely above tau, and still be timed
    ms: list[float] = dataclasses.field(default_factory=list)
    peak_bytes: float = math.nan
    shares: list[float] = dataclasses.field(default_factory=list)  # of the layers clipped, per timed step
    errors: list[float] = dataclasses.field(default_factory=list)  # of the removed part, over verified clips


def always_tau(layer: Layer) -> float:
    """Half way between the tenth and eleventh value: ten are above it in loud and quiet steps alike."""
    return layer.scale * (relative_sigma(RANK - 1) + relative_sigma(RANK)) / 2


def norm_clip(set_: LayerSet) -> Contender:
    """Default arguments of torch; the limit is half the norm of the first step, so that everything is scaled."""
    limit = 0.5 * math.sqrt(sum(float(layer.master[0].norm()) ** 2 for layer in set_.layers))
    parameters = set_.parameters
    return Contender(NORM, "norm", lambda: torch.nn.utils.clip_grad_norm_(parameters, limit))


def _from_clipper(
    name: str, task: Task, clipper: spectralclip.SpectralClipper, tolerance: float = Contender.tolerance
) -> Contender:
    def results() -> list[LayerResult]:
        return [LayerResult(layer.tau, layer.clipped, layer.status) for layer in clipper.report()]

    def state_bytes() -> float:
        return float(len(clipper.state_dict()["state"]))

    return Contender(name, task, clipper.step, results, state_bytes, tolerance=tolerance)


def tracked_ema(set_: LayerSet) -> Contender:
    named = [(layer.name, layer.parameter) for layer in set_.layers]
    return _from_clipper(TRACKED, "ema", spectralclip.SpectralClipper(named, threshold=spectralclip.Ema(EMA_DECAY)))


def _always(set_: LayerSet, name: str, method: Method) -> Contender:
    groups = [
        {"params": [layer.parameter], "names": [layer.name], "threshold": always_tau(layer)} for layer in set_.layers
    ]
    # To an error well below that of Algorithm 2, not to the default tolerance, an order of magnitude below it.
    clipper = spectralclip.SpectralClipper(groups, method=method, rank=RANK, tolerance=ALWAYS_TOLERANCE)
    return _from_clipper(name, "always", clipper, ALWAYS_TOLERANCE)


def tracked_always(set_: LayerSet) -> Contender:
    return _always(set_, ALWAYS, "tracked")


def sketched_always(set_: LayerSet) -> Contender:
    return _always(set_, SKETCHED, "sketched")


def _published(name: str, task: Task, clipper: AlgorithmTwo) -> Contender:
    def results() -> list[LayerResult]:
        return [LayerResult(tau, clipped) for tau, clipped in zip(clipper.taus, clipper.counts())]

    # State: two Python floats and a count per layer.  Ten values from a cold start err by up to 1 or 2 %.
    return Contender(name, task, clipper.step, results, lambda: 24.0 * len(clipper.taus), wrong_share=5e-2, may_miss=1)


def published_ema(set_: LayerSet) -> Contender:
    return _published(PUBLISHED, "ema", AlgorithmTwo(set_.parameters, decay=EMA_DECAY))


def published_always(set_: LayerSet) -> Contender:
    taus = [always_tau(layer) for layer in set_.layers]
    return _published(PUBLISHED_ALWAYS, "always", AlgorithmTwo(set_.parameters, taus))


Maker = Callable[[LayerSet], Contender]
MAKERS: Sequence[Maker] = (
    norm_clip, tracked_ema, tracked_always, sketched_always, published_ema, published_always,
)  # fmt: skip

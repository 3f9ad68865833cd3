# SPDX-License-Identifier: Apache-2.0
"""Contenders that factorise or iterate densely: timed on one loud layer of each shape and scaled by the count
(`gram`: one per thread, as it runs over a set).

A whole set would take minutes each.  They get no thresholds to learn: tau stands between the quiet and the loud values,
which costs them nothing and changes nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

import spectralclip

from . import rivals, timing
from .gradients import LIFT, Layer, LayerSet, gradient_of
from .memory import peak_growth
from .reference import Pair, Reference, soft_removed
from .verify import removed_error

GRAM = "spectralclip gram"
FULL_SVD = "full torch.linalg.svd"
HARD_CAP = "hard cap by products (2 x 8 steps)"
SOFT_CLIP = "soft clip by products (10 steps)"
WRONG_SHARE = 1e-3  # all four are exact up to rounding or convergence


@dataclasses.dataclass
class Job:
    """One timed call, prepared: it clips `layers` layers of one shape."""

    call: Callable[[], object]
    result: Callable[[], torch.Tensor]  # of the first of them
    layers: int = 1


@dataclasses.dataclass
class DenseContender:
    name: str
    prepare: Callable[[torch.Tensor, float], Job]
    ms: list[float] = dataclasses.field(default_factory=list)  # per round, scaled to the whole set
    peak_bytes: float = 0.0  # the largest of the shapes
    errors: list[float] = dataclasses.field(default_factory=list)


def _gram(master: torch.Tensor, tau: float) -> Job:
    """As a step over a whole set does it: one layer per thread."""
    parameters = [torch.nn.Parameter(torch.empty_like(master)) for _ in range(torch.get_num_threads())]
    for parameter in parameters:
        parameter.grad = master.clone()
    clipper = spectralclip.SpectralClipper(parameters, threshold=tau, method="gram")
    return Job(clipper.step, lambda: gradient_of(parameters[0]), len(parameters))


def _function(clip: Callable[[torch.Tensor, float], torch.Tensor]) -> Callable[[torch.Tensor, float], Job]:
    """Of torch operations, which use all threads on one layer."""

    def prepare(master: torch.Tensor, tau: float) -> Job:
        out: list[torch.Tensor] = []
        return Job(lambda: out.append(clip(master, tau)), lambda: out[0])

    return prepare


def make_dense() -> list[DenseContender]:
    return [
        DenseContender(GRAM, _gram),
        DenseContender(FULL_SVD, _function(rivals.full_svd_clip)),
        DenseContender(HARD_CAP, _function(rivals.hard_cap)),
        DenseContender(SOFT_CLIP, _function(rivals.soft_clip)),
    ]


@dataclasses.dataclass
class _Sample:
    """One layer of a shape in a loud step."""

    layer: Layer
    master: torch.Tensor
    reference: Reference
    count: int  # layers of this shape

    @property
    def tau(self) -> float:
        return self.layer.scale * (1 + LIFT) / 2 * 0.95


def _samples(set_: LayerSet, references: dict[Pair, Reference]) -> list[_Sample]:
    found: dict[tuple[int, int], _Sample] = {}
    for (number, variant), reference in references.items():
        layer = set_.layers[number]
        if layer.loud[variant] and layer.shape not in found:
            count = sum(other.shape == layer.shape for other in set_.layers)
            found[layer.shape] = _Sample(layer, layer.master[variant], reference, count)
    return list(found.values())


def _judge(contender: DenseContender, sample: _Sample, after: torch.Tensor) -> str | None:
    if contender.name == SOFT_CLIP:  # its own operator
        expected = soft_removed(sample.reference, sample.master, sample.tau)
        removed = sample.master.double() - after
        error = float((removed - expected).norm() / expected.norm())
        right = error <= WRONG_SHARE
    else:
        error, right = removed_error(sample.reference, sample.master, after, sample.tau, WRONG_SHARE)
    contender.errors.append(error)
    return None if right else f"{contender.name}, {sample.layer.name}: removed part wrong by {error:.3g}"


def _time_sample(contender: DenseContender, sample: _Sample, first: bool, failures: list[str]) -> float:
    """Milliseconds for all layers of the sample's shape."""
    job = contender.prepare(sample.master, sample.tau)
    times: list[float] = []
    if not first:
        times.append(timing.milliseconds(job.call))
    else:
        # The first call is the one that is verified and whose memory is taken; it is timed too, because on the large
        # set there is no second one.
        growth = peak_growth(lambda: times.append(timing.milliseconds(job.call)))
        contender.peak_bytes = growth if math.isnan(growth) else max(contender.peak_bytes, growth)
        what = _judge(contender, sample, job.result())
        failures += [] if what is None else [what]
    return times[0] * sample.count / job.layers


@torch.no_grad()
def run_dense(
    set_: LayerSet, rounds: int, references: dict[Pair, Reference], failures: list[str],
    contenders: list[DenseContender] | None = None,
) -> list[DenseContender]:  # fmt: skip
    contenders = make_dense() if contenders is None else contenders
    samples = _samples(set_, references)
    if len(samples) < len(set_.plan.shapes):
        failures.append(f"{set_.plan.key}: no loud layer with a reference for every shape")
    for round_ in range(rounds):
        for turn in range(len(contenders)):
            contender = contenders[(turn + round_) % len(contenders)]
            timing.show_progress(f"{set_.plan.key}: round {round_ + 1} of {rounds}, {contender.name}", round_ == 0)
            times = [_time_sample(contender, sample, round_ == 0, failures) for sample in samples]
            contender.ms.append(sum(times))
    return contenders

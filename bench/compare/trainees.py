# SPDX-License-Identifier: Apache-2.0
"""Models in training, one for each way to clip, all from the same weights.

Thresholds follow the gradients where a contender can measure them: the EMA of its past, and for "always" a sixth of
it, above which ten directions or more of a GPT's gradient stand.  Clips by products know no singular value: they get
half the largest one of the first gradient and keep it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

import spectralclip

from . import rivals, timing
from .gpt import GPT, GptShape
from .gradients import gradient_of
from .reference import Reference, soft_removed
from .verify import removed_error

NONE, NORM, TRACKED, PUBLISHED = "no clipping", "torch clip_grad_norm_", "spectralclip tracked", "Algorithm 2"
ALWAYS, SKETCHED = "spectralclip tracked, always r = 10", "spectralclip sketched, always r = 10"
GRAM = "spectralclip gram"
FULL_SVD, HARD_CAP, SOFT_CLIP = "full torch.linalg.svd", "hard cap by products", "soft clip by products"
# Those that factorise or iterate densely cost up to a step themselves: they take part in the first rounds only.
DENSE = (GRAM, FULL_SVD, HARD_CAP, SOFT_CLIP)
NAMES = (NONE, NORM, TRACKED, ALWAYS, SKETCHED, PUBLISHED, *DENSE)

ALWAYS_SLACK = 1 / 6
WRONG_SHARE = 5e-2

Judge = Callable[[Reference, torch.Tensor, torch.Tensor, float], tuple[float, bool]]


def _hard(reference: Reference, before: torch.Tensor, after: torch.Tensor, tau: float) -> tuple[float, bool]:
    return removed_error(reference, before, after, tau, WRONG_SHARE)


def _soft(reference: Reference, before: torch.Tensor, after: torch.Tensor, tau: float) -> tuple[float, bool]:
    """By the soft clip's own definition."""
    expected = soft_removed(reference, before, tau)
    error = float((before.double() - after.double() - expected).norm() / expected.norm())
    return error, error <= WRONG_SHARE


@dataclasses.dataclass
class Trainee:
    name: str
    model: GPT
    optimizer: torch.optim.Optimizer
    clip: Callable[[], object] = lambda: None
    taus: Callable[[], dict[str, float]] = dict  # of the latest step, per matrix
    clipped: Callable[[], list[bool]] = list  # likewise
    judge: Judge = _hard
    terms: int = 64  # as many leading directions as the contender may clip
    loudness: float = 3.0  # of the gradient that is verified: then something stands above tau in every matrix
    step_ms: list[float] = dataclasses.field(default_factory=list)
    clip_ms: list[float] = dataclasses.field(default_factory=list)
    shares: list[float] = dataclasses.field(default_factory=list)  # of the matrices clipped, per timed step
    errors: list[float] = dataclasses.field(default_factory=list)
    loss: float = math.nan

    def backward(self, x: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> None:
        self.optimizer.zero_grad()
        loss = self.model.loss(x, y)
        (scale * loss).backward()
        self.loss = float(loss.detach())

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.backward(x, y)
        self.clip_ms.append(timing.milliseconds(self.clip))
        self.optimizer.step()


def _by_spectralclip(trainee: Trainee, **options: Any) -> None:
    clipper = spectralclip.SpectralClipper(trainee.model, **options)

    def spectral() -> list[spectralclip.LayerReport]:
        return [layer for layer in clipper.report() if layer.treatment == "spectral"]

    trainee.clip = clipper.step
    trainee.taus = lambda: {layer.name: layer.tau for layer in spectral()}
    trainee.clipped = lambda: [layer.clipped > 0 for layer in spectral()]


def _by_factors(trainee: Trainee, factors: Callable[[torch.Tensor], rivals.Factors]) -> None:
    """The matrices alone: embeddings are skipped, and vectors would only add to its time."""
    named = trainee.model.matrices()
    clipper = rivals.AlgorithmTwo([parameter for _, parameter in named], factors=factors)
    trainee.clip = clipper.step
    trainee.taus = lambda: dict(zip((name for name, _ in named), clipper.taus))
    trainee.clipped = lambda: [count > 0 for count in clipper.counts()]


def _by_products(trainee: Trainee, clip: Callable[[torch.Tensor, float], torch.Tensor]) -> None:
    named = trainee.model.matrices()
    taus: dict[str, float] = {}

    @torch.no_grad()
    def step() -> None:
        for name, parameter in named:
            G = gradient_of(parameter)
            if name not in taus:
                taus[name] = float(torch.linalg.matrix_norm(G, 2)) / 2
            G.copy_(clip(G, taus[name]))

    trainee.clip, trainee.taus = step, lambda: taus
    trainee.clipped = lambda: [True] * len(named)


def _by_norm(trainee: Trainee) -> None:
    parameters = list(trainee.model.parameters())
    trainee.clip = lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)


def _always(trainee: Trainee, method: str) -> None:
    threshold = spectralclip.Ema(0.9, slack=ALWAYS_SLACK)
    _by_spectralclip(trainee, method=method, rank=rivals.RANK, threshold=threshold)
    trainee.terms, trainee.loudness = rivals.RANK, 1.0


_SET_UP: dict[str, Callable[[Trainee], None]] = {
    NONE: lambda trainee: None,
    NORM: _by_norm,
    TRACKED: _by_spectralclip,
    ALWAYS: lambda trainee: _always(trainee, "tracked"),
    SKETCHED: lambda trainee: _always(trainee, "sketched"),
    PUBLISHED: lambda trainee: _by_factors(trainee, rivals.leading_factors),
    GRAM: lambda trainee: _by_spectralclip(trainee, method="gram"),
    FULL_SVD: lambda trainee: _by_factors(trainee, rivals.all_factors),
    HARD_CAP: lambda trainee: _by_products(trainee, rivals.hard_cap),
    SOFT_CLIP: lambda trainee: _by_products(trainee, rivals.soft_clip),
}


def make_trainee(name: str, shape: GptShape) -> Trainee:
    torch.manual_seed(0)
    model = GPT(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    trainee = Trainee(name, model, optimizer)
    _SET_UP[name](trainee)
    if name == SOFT_CLIP:
        trainee.judge = _soft
    return trainee

# SPDX-License-Identifier: Apache-2.0
"""What clipping adds to a real training step: a small GPT, forward, backward, clip, AdamW.

Every contender trains a model of its own from the same weights on the same batches, one step per round, interleaved.
The clock of the whole step gives paired differences to the step without clipping; the clock around the clip alone gives
its share, because a few milliseconds drown in the noise of a step of seconds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

import spectralclip

from . import timing
from .gpt import GPT, GptShape, batches
from .reference import make_reference
from .rivals import AlgorithmTwo
from .verify import removed_error

NONE, NORM, TRACKED, PUBLISHED = "no clipping", "torch clip_grad_norm_", "spectralclip tracked", "Algorithm 2"
WARMUP_STEPS = 3
WRONG_SHARE = 5e-2


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    shape: GptShape = GptShape()
    batch: int = 16
    rounds: int = 8


@dataclasses.dataclass
class Trainee:
    name: str
    model: GPT
    optimizer: torch.optim.Optimizer
    clip: Callable[[], object]
    taus: Callable[[], dict[str, float]] = dict  # of the latest step, per matrix
    clipped: Callable[[], list[bool]] = list  # likewise
    step_ms: list[float] = dataclasses.field(default_factory=list)
    clip_ms: list[float] = dataclasses.field(default_factory=list)
    shares: list[float] = dataclasses.field(default_factory=list)  # of the matrices clipped, per timed step
    errors: list[float] = dataclasses.field(default_factory=list)
    loss: float = math.nan

    def backward(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss = self.model.loss(x, y)
        loss.backward()
        self.loss = float(loss.detach())

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.backward(x, y)
        self.clip_ms.append(timing.milliseconds(self.clip))
        self.optimizer.step()


@dataclasses.dataclass
class TrainingResult:
    options: TrainingOptions
    parameters: int
    matrices: int
    trainees: list[Trainee]
    failures: list[str]

    def __getitem__(self, name: str) -> Trainee:
        return next(trainee for trainee in self.trainees if trainee.name == name)

    def clip_share(self, name: str) -> float:
        """Per cent of the rest of the step that the clip takes, median over steps."""
        trainee = self[name]
        return 100 * timing.median([clip / (step - clip) for clip, step in zip(trainee.clip_ms, trainee.step_ms)])

    def paired_overhead(self, name: str) -> tuple[float, float]:
        """Per cent by which the whole step is longer than without clipping, median of paired differences, and its
        standard error."""
        base = timing.median(self[NONE].step_ms)
        difference, error = timing.paired_difference(self[name].step_ms, self[NONE].step_ms)
        return 100 * difference / base, 100 * error / base


def _trainee(name: str, shape: GptShape) -> Trainee:
    torch.manual_seed(0)
    model = GPT(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    trainee = Trainee(name, model, optimizer, lambda: None)
    if name == NORM:
        parameters = list(model.parameters())
        trainee.clip = lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    elif name == TRACKED:
        clipper = spectralclip.SpectralClipper(model)
        trainee.clip = clipper.step
        spectral = lambda: [layer for layer in clipper.report() if layer.treatment == "spectral"]  # noqa: E731
        trainee.taus = lambda: {layer.name: layer.tau for layer in spectral()}
        trainee.clipped = lambda: [layer.clipped > 0 for layer in spectral()]
    elif name == PUBLISHED:  # on the matrices alone: embeddings are skipped, and vectors would only add to its time
        named = model.matrices()
        published = AlgorithmTwo([parameter for _, parameter in named])
        trainee.clip = published.step
        trainee.taus = lambda: dict(zip((matrix for matrix, _ in named), published.taus))
        trainee.clipped = lambda: [count > 0 for count in published.counts()]
    return trainee


def _verify(trainee: Trainee, x: torch.Tensor, y: torch.Tensor) -> list[str]:
    """One step whose clips are compared with float64, matrix by matrix."""
    trainee.backward(x, y)
    before = {name: parameter.grad.clone() for name, parameter in trainee.model.matrices()}
    trainee.clip()
    taus = trainee.taus()
    wrong = []
    if taus and set(taus) != set(before):
        wrong.append(f"training, {trainee.name}: clips {sorted(taus)} instead of {sorted(before)}")
    for name, parameter in trainee.model.matrices():
        if name not in taus:
            continue
        reference = make_reference(before[name], terms=64)
        error, right = removed_error(reference, before[name], parameter.grad, taus[name], WRONG_SHARE)
        if not math.isnan(error):
            trainee.errors.append(error)
        if not right:
            wrong.append(f"training, {trainee.name}, {name}: removed part wrong by {error:.3g}")
    trainee.optimizer.step()
    return wrong


def run_training(options: TrainingOptions) -> TrainingResult:
    timing.show_progress("training: building the models")
    trainees = [_trainee(name, options.shape) for name in (NONE, NORM, TRACKED, PUBLISHED)]
    data = batches(options.shape, options.batch, WARMUP_STEPS + options.rounds)
    failures: list[str] = []
    for trainee in trainees:
        timing.show_progress(f"training: warming up and verifying, {trainee.name}")
        for x, y in data[: WARMUP_STEPS - 1]:
            trainee.step(x, y)
        failures += _verify(trainee, *data[WARMUP_STEPS - 1])
        trainee.clip_ms.clear()

    def run(number: int, round_: int) -> None:
        x, y = data[WARMUP_STEPS + round_]
        trainee = trainees[number]
        trainee.step_ms.append(timing.milliseconds(lambda: trainee.step(x, y)))
        clipped = trainee.clipped()  # outside the clock
        if clipped:
            trainee.shares.append(sum(clipped) / len(clipped))

    timing.interleave([t.name for t in trainees], options.rounds, lambda round_: None, run, "training")
    for trainee in trainees:
        if not math.isfinite(trainee.loss):
            failures.append(f"training, {trainee.name}: the loss is {trainee.loss}")
    model = trainees[0].model
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return TrainingResult(options, parameters, len(model.matrices()), trainees, failures)
